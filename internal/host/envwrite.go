package host

import (
	"maps"
	"slices"
	"strings"
)

// SetEnvFile returns a file of NAME=value lines that gives the named ones these values, and is otherwise as it was: every
// comment, every other name, in its place. A name that is there is changed where it stands last, as that is the one that
// counts, and its other lines go; one that is not takes the place of its comment "#NAME=", else stands at the end. What is
// no file of settings is an error, since nothing of it could be trusted to stay.
func SetEnvFile(name string, data []byte, values map[string]string) ([]byte, error) {
	if _, err := ParseEnvFile(name, data); err != nil {
		return nil, err
	}
	type piece struct{ key, text string } // one entry, with the lines that it goes on in, or one line that is none
	var pieces []piece
	for r := (&envReader{text: unixLines(data), line: 1}); r.more(); {
		before := r.text
		key, _, ok, err := r.entry()
		if err != nil {
			return nil, err
		}
		if !ok {
			key = ""
		}
		pieces = append(pieces, piece{key, before[:len(before)-len(r.text)]})
	}
	var out strings.Builder
	last := map[string]int{}
	for i, p := range pieces {
		switch bare := strings.TrimSpace(p.text); {
		case p.key != "":
			last[p.key] = i
		case strings.HasPrefix(bare, "#") && strings.HasSuffix(bare, "="):
			commented := strings.TrimSpace(bare[1 : len(bare)-1])
			if at, there := last[commented]; !there || pieces[at].key == "" {
				last[commented] = i
			}
		}
	}
	for i, p := range pieces {
		switch value, wanted := values[p.key]; {
		case p.key != "" && wanted && last[p.key] != i:
			continue // an assignment that does not count, or that stands before its like
		case p.key != "" && wanted:
			out.WriteString(envLine(p.key, value))
			continue
		}
		if commented, ok := strings.CutPrefix(strings.TrimSpace(p.text), "#"); ok && p.key == "" {
			commented = strings.TrimSpace(strings.TrimSuffix(commented, "="))
			if value, wanted := values[commented]; wanted && last[commented] == i && strings.HasSuffix(strings.TrimSpace(p.text), "=") {
				out.WriteString(envLine(commented, value))
				continue
			}
		}
		out.WriteString(p.text)
	}
	written := out.String()
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if _, there := last[key]; !there {
			if written != "" && !strings.HasSuffix(written, "\n") {
				written += "\n"
			}
			if strings.HasSuffix(written, "\\\n") {
				written += "\n" // the last line would go on in ours
			}
			written += envLine(key, values[key])
		}
	}
	return []byte(written), nil
}

// envLine is one assignment that ParseEnvFile reads back as it was, and a shell too.
func envLine(key, value string) string {
	if value != "" && strings.Trim(value, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:@%+,[]-") == "" {
		return key + "=" + value + "\n"
	}
	return key + `="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(value) + "\"\n"
}
