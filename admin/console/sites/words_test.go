package sites_test

import (
	"slices"
	"testing"

	"github.com/gatehouse-id/gatehouse/admin/console/sites"
)

// TestWords checks how the console shows what a rule matches and needs: as lines of a Caddyfile, where there are such.
func TestWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind, json string
		want       []string
	}{
		{"match", `[{"path":["/plans*","/maps/*"]}]`, []string{"match path /plans* /maps/*"}},
		{"match", `[{"path":["/a"],"method":["POST"]}]`, []string{"match method POST", "match path /a"}},
		{"match", `[{"path":["/a"]},{"method":["POST"]}]`, []string{`match [{"path":["/a"]},{"method":["POST"]}]`}}, // one of them, not both
		{"match", `[{"not":[{"path":["/a"]}]}]`, []string{`match [{"not":[{"path":["/a"]}]}]`}},
		{"need", `{"groups":["staff"],"level":2,"max_age":"1h"}`, []string{"need groups staff", "need level 2", "need max_age 1h"}},
		{"need", `{"claims":[{"name":"a"}]}`, []string{`need {"claims":[{"name":"a"}]}`}},
	} {
		if got := sites.Words(c.kind, c.json); !slices.Equal(got, c.want) {
			t.Errorf("Words(%q, %s) = %q, want %q", c.kind, c.json, got, c.want)
		}
	}
}
