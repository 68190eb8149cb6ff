package metrics

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

var (
	descForm  = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)
	usedForm  = regexp.MustCompile(`(gatehouse_[a-z_]+)(?:\{([^}]*)\})?`)
	labelForm = regexp.MustCompile(`([a-z_]+)(?:=~|=|!=|!~)"`)
	ruleForm  = regexp.MustCompile(`(?m)^      - alert: (\w+)\n        expr: (.+)\n(?:        for: \d+m\n)?        labels: \{severity: (?:warning|critical)\}\n        annotations:\n          summary: [A-Z].+\.\n`)
)

// registered returns the labels of every metric by its name.
func registered(t *testing.T) map[string][]string {
	t.Helper()
	store, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	all := make(chan *prometheus.Desc, 1000)
	New(store, audit.NewKeeper(store, nil, zap.NewNop())).Describe(all)
	close(all)
	out := map[string][]string{}
	for d := range all {
		m := descForm.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("a metric describes itself as %s", d)
		}
		out[m[1]] = strings.Split(m[2], ",")
	}
	return out
}

// checkQuery checks that a query asks for metrics and labels that there are.
func checkQuery(t *testing.T, known map[string][]string, where, expr string) {
	t.Helper()
	used := usedForm.FindAllStringSubmatch(expr, -1)
	if len(used) == 0 {
		t.Errorf("%s asks for no metric: %s", where, expr)
	}
	for _, m := range used {
		labels, ok := known[m[1]]
		if !ok {
			t.Errorf("%s asks for %s, which is not registered", where, m[1])
			continue
		}
		for _, l := range labelForm.FindAllStringSubmatch(m[2], -1) {
			if l[1] != "instance" && !slices.Contains(labels, l[1]) {
				t.Errorf("%s: %s has the labels %v, not %s", where, m[1], labels, l[1])
			}
		}
	}
}

// TestBoardAndAlerts: the board and the alert rules ask for metrics that are registered, with labels that they have.
func TestBoardAndAlerts(t *testing.T) {
	t.Parallel()
	known := registered(t)
	raw, err := os.ReadFile("../../docs/grafana/gatehouse.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string `json:"title"`
			Type    string `json:"type"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	if err := json.Unmarshal(raw, &board); err != nil {
		t.Fatal(err)
	}
	panels := 0
	for _, p := range board.Panels {
		if p.Type == "row" {
			continue
		}
		panels++
		if len(p.Targets) == 0 {
			t.Errorf("the panel %q shows nothing", p.Title)
		}
		for _, q := range p.Targets {
			checkQuery(t, known, "the panel "+p.Title, q.Expr)
		}
	}
	if panels < 15 {
		t.Errorf("the board has %d panels", panels)
	}
	alerts, err := os.ReadFile("../../docs/prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile("../../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	rules := ruleForm.FindAllStringSubmatch(string(alerts), -1)
	if n := strings.Count(string(alerts), "- alert:"); len(rules) != n || n < 10 {
		t.Fatalf("%d of %d rules have an expression, a severity and a summary", len(rules), n)
	}
	for _, r := range rules {
		checkQuery(t, known, "the alert "+r[1], r[2])
		if !strings.Contains(string(guide), r[1]) {
			t.Errorf("docs/observability.md does not say what to do about %s", r[1])
		}
	}
	for name := range known {
		if !strings.Contains(string(guide), "| `"+name+"` |") {
			t.Errorf("docs/observability.md does not list %s", name)
		}
	}
}
