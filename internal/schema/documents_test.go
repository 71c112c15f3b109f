package schema

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pace-node/internal/config"
	"pace-node/internal/control"
	"pace-node/internal/control/page"
	"pace-node/internal/doctor"
	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/provision"
	"pace-node/internal/target"
	"pace-node/internal/wire"
)

const folder = "../../docs/schema"

// document is one published document: a file of docs/schema, the Go type behind it, and where it travels or is printed.
type document struct {
	File, Title string
	Type        reflect.Type
	Where       string
}

func doc[T any](file, title, where string) document {
	return document{file, title, reflect.TypeFor[T](), where}
}

// documents is the table of what is published.
var documents = []document{
	doc[wire.Hello]("wire-hello", "Hello", "verb 13 Hello: request and answer"),
	doc[wire.Announce]("wire-announce", "Announce", "verb 14 Announce: request; the answer is empty"),
	doc[wire.Roster]("wire-roster", "Roster", "verb 10 Enroll: the roster bytes of an approval, whose SHA-256 the answer signs"),
	doc[wire.FollowRequest]("wire-follow-request", "Follow request", "verb 12 Follow: request; the pushes are fields"),
	doc[wire.StartupEventAnswer]("wire-startup-event-answer", "Startup event answer", "verb 15 StartupEvent: answer; the request is fields"),
	doc[wire.QueryAnswer]("wire-query-answer", "Query answer", "verb 16 Query: answer; the request is empty"),
	doc[wire.WorkRequest]("wire-work-request", "Work request", "verb 17 Work: request"),
	doc[wire.WorkAnswer]("wire-work-answer", "Work answer", "verb 17 Work: answer"),
	doc[wire.Inventory]("work-inventory", "Inventory", "verb 17 Work, step inventory: body of the answer; and, as a string, in the helper's input"),
	doc[wire.CSRAnswer]("work-csr-answer", "Certificate request", "verb 17 Work, step csr: body of the answer; and in the helper's input"),
	doc[wire.ConfigureBody]("work-configure-body", "Configure body", "verb 17 Work, step configure: body of the request"),
	doc[wire.ConfigureAnswer]("work-configure-answer", "Configure answer", "verb 17 Work, step configure: body of the answer"),
	doc[wire.RestartBody]("work-restart-body", "Restart body", "verb 17 Work, step restart: body of the request"),
	doc[wire.RestartAnswer]("work-restart-answer", "Restart answer", "verb 17 Work, step restart: body of the answer"),
	doc[wire.UpgradeBody]("work-upgrade-body", "Upgrade body", "verb 17 Work, step upgrade: body of the request"),
	doc[wire.UpgradeAnswer]("work-upgrade-answer", "Upgrade answer", "verb 17 Work, step upgrade: body of the answer"),
	doc[wire.ShutdownBody]("work-shutdown-body", "Shutdown body", "verb 17 Work, step shutdown: body of the request; the answer has none"),
	doc[wire.StatusRequest]("wire-status-request", "Status request", "verb 18 Status: request"),
	doc[wire.ClusterRequest]("wire-cluster-request", "Cluster request", "verb 19 Cluster: request"),
	doc[wire.ClusterAnswer]("wire-cluster-answer", "Cluster answer", "verb 19 Cluster: answer"),
	doc[wire.QueueRequest]("wire-queue-request", "Queue request", "verb 1A Queue: request"),

	doc[control.Identity]("identity", "Identity", "`pace-node --print-identity --json`, `pacectl identity --json`"),
	doc[control.NodeStatus]("node-status", "Node status", "verb 18 Status `node`; `pacectl node --json`"),
	doc[control.ClusterStatus]("cluster-status", "Cluster status", "verb 18 Status `cluster`; `pace-node --cluster-status --json`, `pacectl fleet status --json`"),
	doc[control.ConditionList]("condition-list", "Conditions", "verb 18 Status `conditions`"),
	doc[control.BackupPart]("backup-part", "A part of the state that a backup holds", "verb 18 Status `backup`, to this machine's own administrators"),
	doc[control.StaleList]("stale-list", "Members that were silent for long", "verb 18 Status `stale`; `pacectl member stale --json`"),
	doc[control.RecoverPreview]("recover-preview", "What a recovery would do", "verb 18 Status `recover`, to this machine's own administrators"),
	doc[control.NodeFacts]("node-facts", "What a node has seen of its network", "verb 18 Status `doctor`, to this machine's own administrators"),
	doc[control.DoctorReport]("doctor", "Doctor's report", "`pacectl doctor --json`, `pacectl doctor HOST --json`; the exit status is 1 where the verdict is `problem`"),
	doc[control.FollowList]("follow-list", "Who follows whom", "verb 18 Status `follows`; `/api/v1/follows` of `--admin-listen`"),
	doc[control.Dashboard]("dashboard", "Address of the web page", "verb 18 Status `dashboard`, to this machine's own administrators; `pacectl dashboard --json`"),
	doc[page.SessionDocument]("page-session", "Session of the web page", "`/api/v1/session` of `--admin-listen`"),
	doc[control.WatchStatus]("watch-status", "What happens", "verb 18 Status `watch`; `pacectl watch --json`"),
	doc[control.AuditList]("audit-list", "Audit", "verb 18 Status `audit`; `pacectl audit --json`"),
	doc[control.EnrollList]("enroll-list", "Waiting list", "verb 11 EnrollControl list: answer; `pace-node --enroll-list --json`, `pacectl enroll list --json`"),
	doc[control.MemberList]("member-list", "Members", "`pacectl member list --json`"),
	doc[control.MemberShow]("member-show", "Member", "`pacectl member show MACHINE --json`"),
	doc[control.QueueList]("queue-list", "Queue", "verb 1A Queue `list`; `pacectl queue list --json`"),
	doc[control.QueueShow]("queue-show", "Machine of the queue", "verb 1A Queue `show`, `history`; `pacectl queue show MACHINE --json`, `pacectl queue history MACHINE --json`"),
	doc[control.HelperRun]("helper-run", "Trial of the helper", "verb 1A Queue `run-helper`; `pacectl queue run-helper MACHINE --json`"),
	doc[control.CompletionScript]("completion", "Completion", "`pacectl completion SHELL --json`"),
	doc[control.Surfaces]("surfaces", "Surfaces", "`pace-node --print-surfaces --json`"),
	doc[control.ServiceChange]("service-change", "Change of the service", "`pace-node --install-service --json`, `pace-node --uninstall-service --json`"),
	doc[control.Done]("done", "Done", "what every verb that changes something prints with `--json`; verb 11 EnrollControl and verb 1A Queue: answer of their changes"),
	doc[control.ReleaseDocument]("release", "Release", "`pacectl release key|new|sign|verify --json`"),
	doc[control.FailureDocument]("failure", "Failure", "what every verb prints with `--json` when it fails; the exit status is in it"),

	doc[control.Health]("health", "Health", "`/healthz` and `/readyz` of `--admin-listen`"),

	doc[control.AlertDocument]("alert", "Alert", "stdin of `--alert-exec`"),
	doc[target.HookInput]("hook-input", "Hook's input", "stdin of every program in `hooks.d`"),
	doc[provision.HelperInput]("helper-input", "Helper's input", "stdin of `--provision-helper`"),
	doc[helperAnswer]("helper-answer", "Helper's answer", "stdout of `--provision-helper`; the file of `--provision-default`"),
}

// What a helper prints: one JSON object. Keys that are not named here are passed over. An answer that
// neither defers nor shuts down holds a configuration with at least one setting.
type helperAnswer struct {
	Defer          bool              `json:"defer,omitempty"`         // the machine is left as it is and comes due again later; wins over shutdown
	Shutdown       bool              `json:"shutdown,omitempty"`      // the machine's node ends with status 0 and stays down
	Msg            string            `json:"msg,omitempty"`           // why it is deferred, or what the machine logs before it ends
	Configuration  map[string]string `json:"configuration,omitempty"` // written as provisioned/current/configuration.json
	Certificate    string            `json:"certificate,omitempty"`   // PEM, the machine's own first
	CA             string            `json:"ca,omitempty"`            // PEM
	Key            string            `json:"key,omitempty"`           // PEM
	SSLDir         string            `json:"ssldir,omitempty"`        // any value means provisioned/current/ssl
	ActionPolicies map[string]string `json:"action_policies,omitempty"`
	OPAPolicies    map[string]string `json:"opa_policies,omitempty"`
	ServerClaims   map[string]any    `json:"server_claims,omitempty"` // kept with the configuration as it is
	Upgrade        string            `json:"upgrade,omitempty"`       // a version; read, and not acted upon by this version
	Pace           helperExtra       `json:"pace,omitzero"`
}

// What this program adds to the document.
type helperExtra struct {
	RetryAfter string                   `json:"retry_after,omitempty"` // with defer: seconds above 0, or a duration as in "15m"
	Files      map[string]wire.WorkFile `json:"files,omitempty"`       // by relative path, parts joined by "/"
}

func enum[T any](values []T, text func(T) string) func(*Node) {
	return func(n *Node) {
		for _, v := range values {
			n.Enum = append(n.Enum, text(v))
		}
	}
}

func words(values ...string) func(*Node) { return enum(values, func(s string) string { return s }) }

func version(n *Node) { n.Const = control.DocumentVersion }

func pattern(p string) func(*Node) { return func(n *Node) { n.Pattern = p } }

const (
	keyPattern  = `^[A-Za-z0-9_-]{43}$`
	hex32       = `^[0-9a-f]{32}$`
	hex64       = `^[0-9a-f]{64}$`
	modePattern = `^0[0-7]{3}$`
)

// fields narrows what a field holds beyond its Go type, from the tables of the code.
var fields = map[string]func(*Node){
	"control.Identity.V": version, "control.NodeStatus.V": version, "control.ClusterStatus.V": version, "control.ConditionList.V": version,
	"control.AuditList.V": version, "control.EnrollList.V": version, "control.MemberList.V": version, "control.MemberShow.V": version,
	"control.QueueList.V": version, "control.QueueShow.V": version, "control.HelperRun.V": version, "control.Done.V": version,
	"control.FailureDocument.V": version, "control.Surfaces.V": version, "control.ServiceChange.V": version, "control.RecoverPreview.V": version,
	"control.Dashboard.V": version, "control.FollowList.V": version, "page.SessionDocument.V": version,
	"control.WatchStatus.V": version, "control.Event.Kind": words(control.EventKinds...),

	"control.DoctorReport.V": version, "control.NodeFacts.V": version, "control.DoctorReport.Verdict": enum(doctor.Verdicts(), doctor.Verdict.String), "control.DoctorFinding.Verdict": enum(doctor.Verdicts(), doctor.Verdict.String),

	"control.View.Mode":                enum(formation.Modes, func(r formation.ModeRow) string { return r.Name }),
	"control.NodeStatus.Mode":          enum(formation.Modes, func(r formation.ModeRow) string { return r.Name }),
	"control.MemberStatus.Role":        enum(fleet.Roles, func(r fleet.Role) string { return string(r) }),
	"wire.RosterMember.Role":           enum(fleet.Roles, func(r fleet.Role) string { return string(r) }),
	"control.ConditionStatus.ID":       enum(control.Conditions, func(r control.ConditionRow) string { return r.ID }),
	"control.ConditionStatus.Severity": enum([]control.Severity{control.Notice, control.Warning, control.Alert}, control.Severity.String),
	"control.QueueEntry.State":         words(control.QueueStates...),
	"control.SeedStatus.Origin":        enum(formation.Origins, func(r formation.OriginRow) string { return r.Name }),
	"control.SurfaceRow.Name":          words(config.SurfaceNode, config.SurfaceRaft, config.SurfaceBeacon, config.SurfaceReply, config.SurfaceAdmin, "admin-socket"),
	"control.SurfaceRow.Proto":         words("tcp", "udp", "unix", "pipe"),
	"control.SurfaceRow.Scope":         words(config.ScopeLoopback, config.ScopeSegment, config.ScopeNetwork),
	"control.EnrollRow.Decision":       words(control.DecisionWaiting, control.DecisionApproved, control.DecisionAuto, control.DecisionRejected),
	"wire.WorkRequest.Step":            words(wire.StepInventory, wire.StepConfigure, wire.StepRestart, wire.StepShutdown),
	"wire.StatusRequest.What":          words("node", "cluster", "conditions", "audit", "stale", "follows", "watch", "agreement", "recover", "backup", "dashboard", "doctor"),

	"wire.RosterVoter.Key": pattern(keyPattern), "wire.RosterMember.Key": pattern(keyPattern), "control.Identity.PublicKey": pattern(keyPattern),
	"control.NodeStatus.PublicKey": pattern(keyPattern), "control.MemberStatus.Key": pattern(keyPattern), "control.EnrollRow.Key": pattern(keyPattern),
	"control.PreApproved.Key": pattern(keyPattern), "provision.HelperPubKey.PublicKey": pattern(hex64),
	"wire.Announce.BootID": pattern(hex32), "wire.QueryAnswer.BootID": pattern(hex32), "wire.RestartAnswer.BootID": pattern(hex32),
	"wire.ConfigureAnswer.Digest": pattern(hex64), "wire.RestartBody.Digest": pattern(hex64), "wire.RestartAnswer.Digest": pattern(hex64),
	"wire.WorkFile.Mode": pattern(modePattern),

	"control.HelperRun.Input":   func(n *Node) { n.Type = "object" },
	"control.HelperRun.Output":  func(n *Node) { n.Type = "object" },
	"control.QueueShow.Helper":  func(n *Node) { n.Type = "object" },
	"wire.WorkRequest.Body":     func(n *Node) { n.Type = "object" },
	"wire.WorkAnswer.Body":      func(n *Node) { n.Type = "object" },
	"provision.HelperInput.JWT": func(n *Node) { n.AnyOf, n.Type = nil, "null" },
	"schema.helperExtra.RetryAfter": func(n *Node) {
		n.Type, n.AnyOf = "", []*Node{{Type: "number"}, {Type: "string"}}
	},
	"schema.helperAnswer.Configuration": func(n *Node) { n.MinProperties = 1 },
}

func writer(t *testing.T) *Writer {
	t.Helper()
	c, err := ReadComments("../wire", "../control", "../control/page", "../provision", "../target", ".")
	if err != nil {
		t.Fatal(err)
	}
	return &Writer{Comments: c, Fields: fields}
}

// texts are the pages of docs/schema by their names.
func texts(t *testing.T) map[string]string {
	t.Helper()
	w := writer(t)
	out := map[string]string{}
	for _, d := range documents {
		n, err := w.Document(d.Type, d.Title)
		if err != nil {
			t.Fatalf("%s: %v", d.File, err)
		}
		if d.Type == reflect.TypeFor[helperAnswer]() {
			yes := func(name string) *Node {
				return &Node{Properties: Members{{name, &Node{Const: true}}}, Required: []string{name}}
			}
			n.AnyOf = []*Node{{Required: []string{"configuration"}}, yes("defer"), yes("shutdown")}
		}
		if out[d.File+".json"], err = n.Text(); err != nil {
			t.Fatal(err)
		}
	}
	if unused := w.Unused(); len(unused) > 0 {
		slices.Sort(unused)
		t.Errorf("the table of fields names what no document has: %v", unused)
	}
	out["README.md"] = index()
	return out
}

func index() string {
	var b strings.Builder
	b.WriteString("# JSON Schemas\n\nWritten from the Go types and their comments by `make docs`; a test fails where the two differ.\n\n" +
		"Every JSON document that travels between nodes, that a verb prints with `--json`, and that a provisioning helper reads and prints. " +
		"[examples.md](examples.md) shows one of each that a person or a program of yours meets. Draft 2020-12. A member that a schema does not name may come from a later version: readers pass it over. " +
		"Every time span is elapsed milliseconds (`…_ms`), every date Unix seconds. " +
		"Payloads that are not JSON (beacons, proofs, enrollment, startup events, leases, pushes of Follow) are fields of bytes; package `internal/wire` has them.\n\n" +
		"| Schema | Document | Where |\n|---|---|---|\n")
	for _, d := range documents {
		fmt.Fprintf(&b, "| [%s.json](%s.json) | %s | %s |\n", d.File, d.File, d.Title, d.Where)
	}
	return b.String()
}

// TestDocsDrift holds docs/schema against the types; PACE_WRITE_DOCS=1 writes it.
func TestDocsDrift(t *testing.T) {
	want := texts(t)
	if os.Getenv("PACE_WRITE_DOCS") != "" {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range want {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, text := range want {
		b, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil || strings.ReplaceAll(string(b), "\r\n", "\n") != text {
			t.Errorf("docs/schema/%s differs from the types (%v): run make docs", name, err)
		}
	}
	there, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range there {
		if _, ok := want[e.Name()]; !ok && e.Name() != examplesPage {
			t.Errorf("docs/schema/%s is of no document: remove it", e.Name())
		}
	}
}

// TestEveryWireDocumentIsPublished reads package wire for types with JSON names, so that a new one is not forgotten.
func TestEveryWireDocumentIsPublished(t *testing.T) {
	published := map[string]bool{}
	for name, text := range texts(t) {
		if strings.HasSuffix(name, ".json") {
			var s struct {
				Defs map[string]json.RawMessage `json:"$defs"`
			}
			if err := json.Unmarshal([]byte(text), &s); err != nil {
				t.Fatal(err)
			}
			for def := range s.Defs {
				published[def] = true
			}
		}
	}
	for _, d := range documents {
		published[d.Type.Name()] = true
	}
	for _, dir := range []string{"../wire", "../control"} {
		types, err := taggedTypes(dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(types) == 0 {
			t.Errorf("%s has no documents: this test looks in the wrong place", dir)
		}
		for _, name := range types {
			if !published[name] {
				t.Errorf("%s.%s has names in JSON and is in no schema: add it to the table of documents", filepath.Base(dir), name)
			}
		}
	}
}
