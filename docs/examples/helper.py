#!/usr/bin/env python3
"""A provisioning helper that reads a machine's role from a table: helper.py ROLES.json

ROLES.json maps a role to its settings, {"web": {"listen": "80"}}. A machine has the role that its label "role" names
(pace-node --label=role=web). One without a role in the table is deferred until there is one: nothing fails meanwhile, and
`pacectl queue list` says what is missing. It needs nothing but Python 3.
"""

import json
import sys


def answer(request, roles):
    # The inventory is a string that holds JSON, as helpers of this document have always been given it.
    facts = json.loads(request["inventory"])["facts"]
    role = facts.get("labels", {}).get("role", "")
    if role not in roles:
        return {
            "defer": True,
            "msg": f"{facts.get('name', request['identity'])} has the role {role!r}, which is not in the table",
            "pace": {"retry_after": "15m"},
        }
    configuration = {"role": role, "identity": request["identity"], "hostname": facts.get("hostname", "")}
    configuration.update({name: str(value) for name, value in roles[role].items()})  # every value is a string
    return {"configuration": configuration}


def main():
    request = json.load(sys.stdin)
    with open(sys.argv[1], encoding="utf-8") as table:
        roles = json.load(table)
    json.dump(answer(request, roles), sys.stdout)


if __name__ == "__main__":
    # What goes wrong goes to stderr and ends with a status that is not 0: both are in the error that the operator reads.
    main()
