package monitoring

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"pace-node/internal/control"
)

const (
	rulesFile     = "pace-node.rules.yml"
	rulesTestFile = "pace-node.rules_test.yml"
	dashboardFile = "pace-node-dashboard.json"
)

// foreign are the series that the expressions name and that Prometheus and the Go client make.
var foreign = []string{"up", "process_resident_memory_bytes", "process_cpu_seconds_total"}

type rule struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

type ruleFile struct {
	Groups []struct {
		Name  string
		Rules []rule
	}
}

func read[T any](t *testing.T, name string, unmarshal func([]byte, any) error) (out T) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err == nil {
		err = unmarshal(b, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func rules(t *testing.T) (out []rule) {
	t.Helper()
	for _, g := range read[ruleFile](t, rulesFile, yaml.Unmarshal).Groups {
		out = append(out, g.Rules...)
	}
	return out
}

type panel struct {
	ID          int
	Type, Title string
	GridPos     struct{ H, W, X, Y int }
	Targets     []struct{ Expr, RefID string }
}

type dashboard struct {
	UID, Title    string
	SchemaVersion int
	Panels        []panel
	Templating    struct {
		List []struct{ Name, Type, Definition string }
	}
}

// grafana are the variables of a dashboard, with a value that Prometheus reads.
var grafana = strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*")

// expressions are all of both files by where they stand.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, r := range rules(t) {
		out[r.Alert] = r.Expr
	}
	for _, p := range read[dashboard](t, dashboardFile, json.Unmarshal).Panels {
		for _, target := range p.Targets {
			out[p.Title+" "+target.RefID] = grafana.Replace(target.Expr)
		}
	}
	return out
}

var (
	selector  = regexp.MustCompile(`\b([a-z][a-z_]+)(?:\{([^}]*)\})?`)
	matcher   = regexp.MustCompile(`([a-z_]+)(=~|!~|!=|=)"([^"]*)"`)
	durations = regexp.MustCompile(`\[[0-9]+[smhd]\]`)
	grouping  = regexp.MustCompile(`\b(?:by|on) \(([a-z_, ]*)\)`)
)

// words are what an expression names beside series.
var words = []string{"sum", "max", "rate", "increase", "by", "on", "and", "histogram_quantile"}

// TestEveryNamedSeriesExists holds each series, label and value that rules and dashboard name against the registry's table.
func TestEveryNamedSeriesExists(t *testing.T) {
	named := 0
	for where, expr := range expressions(t) {
		labels := map[string]bool{"instance": true, "job": true, "le": strings.Contains(expr, "_bucket")}
		rest := durations.ReplaceAllString(grouping.ReplaceAllString(expr, ""), "")
		for _, m := range selector.FindAllStringSubmatch(rest, -1) {
			name := m[1]
			if slices.Contains(words, name) || slices.Contains(foreign, name) {
				continue
			}
			named++
			row, ok := series(name)
			if !ok {
				t.Errorf("%s names %s, which is not in the table of metrics", where, name)
				continue
			}
			for _, l := range row.Labels {
				labels[l] = true
			}
			for _, m := range matcher.FindAllStringSubmatch(m[2], -1) {
				checkMatcher(t, where, row, m[1], m[2], m[3])
			}
		}
		for _, m := range grouping.FindAllStringSubmatch(expr, -1) {
			for l := range strings.SplitSeq(m[1], ",") {
				if l = strings.TrimSpace(l); !labels[l] {
					t.Errorf("%s groups by %q, which no series of it has: %s", where, l, expr)
				}
			}
		}
	}
	if named < 50 {
		t.Errorf("only %d names were looked at: the expressions are not read as they were", named)
	}
}

// series is the row of a series, also by the names that a histogram is exposed under.
func series(name string) (control.SeriesRow, bool) {
	for _, row := range control.Series {
		if row.Name == name && row.Kind != control.Histogram {
			return row, true
		}
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if row.Kind == control.Histogram && row.Name+suffix == name {
				return row, true
			}
		}
	}
	return control.SeriesRow{}, false
}

func checkMatcher(t *testing.T, where string, row control.SeriesRow, label, op, value string) {
	t.Helper()
	if label == "instance" || label == "job" {
		return
	}
	at := slices.Index(row.Labels, label)
	if at < 0 {
		t.Errorf("%s: %s has no label %q", where, row.Name, label)
		return
	}
	want := "^(?:" + value + ")$"
	if op == "=" || op == "!=" {
		want = "^" + regexp.QuoteMeta(value) + "$"
	}
	re, err := regexp.Compile(want)
	if err != nil || !slices.ContainsFunc(row.Values, func(v []string) bool { return re.MatchString(v[at]) }) {
		t.Errorf("%s: %s has no series with %s %s %q", where, row.Name, label, op, value)
	}
}

// TestEveryAlertHelps: each has a severity, says what it is about and what to type, and has a test of its own that sees it.
func TestEveryAlertHelps(t *testing.T) {
	type testFile struct {
		Tests []struct {
			Cases []struct {
				Alertname string
				Expected  []any `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	seen := map[string]bool{}
	for _, group := range read[testFile](t, rulesTestFile, yaml.Unmarshal).Tests {
		for _, c := range group.Cases {
			seen[c.Alertname] = seen[c.Alertname] || len(c.Expected) > 0
		}
	}
	names := map[string]bool{}
	for _, r := range rules(t) {
		if names[r.Alert] || !strings.HasPrefix(r.Alert, "Pace") {
			t.Errorf("the name %q", r.Alert)
		}
		names[r.Alert] = true
		if !slices.Contains([]string{"info", "warning", "critical"}, r.Labels["severity"]) {
			t.Errorf("%s: severity %q", r.Alert, r.Labels["severity"])
		}
		for _, a := range []string{"summary", "description", "remedy"} {
			if r.Annotations[a] == "" {
				t.Errorf("%s has no %s", r.Alert, a)
			}
		}
		if !seen[r.Alert] {
			t.Errorf("no test of %s sees %s raised", rulesTestFile, r.Alert)
		}
	}
	for name := range seen {
		if !names[name] {
			t.Errorf("%s tests %s, which is no alert", rulesTestFile, name)
		}
	}
}

// TestDashboard: identifiers are unique, nothing lies over anything else, and every panel shows something.
func TestDashboard(t *testing.T) {
	d := read[dashboard](t, dashboardFile, json.Unmarshal)
	if d.UID == "" || d.Title == "" || d.SchemaVersion == 0 || len(d.Panels) < 10 {
		t.Errorf("%q %q version %d, %d panels", d.UID, d.Title, d.SchemaVersion, len(d.Panels))
	}
	variables := map[string]bool{}
	for _, v := range d.Templating.List {
		variables[v.Name] = true
		if m := regexp.MustCompile(`^label_values\((\w+), instance\)$`).FindStringSubmatch(v.Definition); v.Type == "query" {
			if _, ok := series(append(m, "", "")[1]); !ok {
				t.Errorf("the variable %s is %q", v.Name, v.Definition)
			}
		}
	}
	if !variables["datasource"] || !variables["instance"] {
		t.Errorf("variables %v", variables)
	}
	ids, cells := map[int]string{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if other, taken := ids[p.ID]; taken {
			t.Errorf("%s and %s have the same id", p.Title, other)
		}
		ids[p.ID] = p.Title
		if p.GridPos.X+p.GridPos.W > 24 || p.GridPos.W < 1 || p.GridPos.H < 1 {
			t.Errorf("%s lies at %+v", p.Title, p.GridPos)
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				cell := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if other, taken := cells[cell]; taken {
					t.Fatalf("%s lies over %s", p.Title, other)
				}
				cells[cell] = p.Title
			}
		}
		if (p.Type == "row") != (len(p.Targets) == 0) {
			t.Errorf("%s, a %s, has %d targets", p.Title, p.Type, len(p.Targets))
		}
	}
}

// promtool runs Prometheus' own tool.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("this machine has no promtool (Debian's package prometheus)")
	}
	if out, err := exec.Command("promtool", args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestPromtoolRules(t *testing.T)     { promtool(t, "check", "rules", "--lint-fatal", rulesFile) }
func TestPromtoolRuleTests(t *testing.T) { promtool(t, "test", "rules", rulesTestFile) }

// TestPromtoolDashboard has promtool read the dashboard's expressions, as rules that record them.
func TestPromtoolDashboard(t *testing.T) {
	var text strings.Builder
	text.WriteString("groups:\n  - name: dashboard\n    rules:\n")
	i := 0
	for _, p := range read[dashboard](t, dashboardFile, json.Unmarshal).Panels {
		for _, target := range p.Targets {
			b, err := json.Marshal(grafana.Replace(target.Expr)) // a JSON string is one of YAML too
			if err != nil {
				t.Fatal(err)
			}
			i++
			fmt.Fprintf(&text, "      - record: dashboard:%d\n        expr: %s\n", i, b)
		}
	}
	path := filepath.Join(t.TempDir(), "dashboard.yml")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", path)
}
