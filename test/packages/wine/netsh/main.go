// Command netsh stands in for Windows' own, which Wine has as an empty shell: it remembers rules as that does, in a file,
// and writes down what it was told.
package main

import (
	"os"
	"slices"
	"strings"
)

const (
	rulesFile = `C:\netsh-rules.txt`
	toldFile  = `C:\netsh-told.txt`
)

func main() {
	told, _ := os.OpenFile(toldFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	told.WriteString(strings.Join(os.Args[1:], "|") + "\n")
	told.Close()
	if len(os.Args) < 6 || os.Args[1] != "advfirewall" || os.Args[2] != "firewall" || os.Args[4] != "rule" {
		os.Exit(1)
	}
	text, _ := os.ReadFile(rulesFile)
	rules := strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
	is := func(rule string) bool { name, _, _ := strings.Cut(rule, "|"); return name == os.Args[5] }
	switch {
	case os.Args[3] == "add":
		rules = append(rules, strings.Join(os.Args[5:], "|"))
	case !slices.ContainsFunc(rules, is):
		os.Exit(1)
	case os.Args[3] == "delete":
		rules = slices.DeleteFunc(rules, is)
	}
	if err := os.WriteFile(rulesFile, []byte(strings.Join(append(rules, ""), "\n")), 0o600); err != nil {
		os.Exit(1)
	}
}
