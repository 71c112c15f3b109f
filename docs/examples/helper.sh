#!/bin/sh
# A provisioning helper: one machine's facts come in on stdin as one JSON document, its configuration goes out on stdout as
# one JSON document. This one gives every machine a greeting and the same two settings. It needs nothing but sh.
input=$(cat)
id=$(printf '%s' "$input" | sed -n 's/.*"identity":"\([^"]*\)".*/\1/p')
name=$(printf '%s' "$input" | sed -n 's/.*"name":"\([A-Za-z0-9._-]*\)".*/\1/p')
cat <<JSON
{
  "configuration": {
    "greeting": "hello, ${name:-$id}",
    "log.level": "info",
    "update.channel": "stable"
  },
  "pace": { "files": { "motd": { "text": "This machine is provisioned by its fleet.\n", "mode": "0644" } } }
}
JSON
