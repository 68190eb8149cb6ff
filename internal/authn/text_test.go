package authn_test

import (
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/authn"
)

// TestVisible: what shows nothing is no part of a name, and what joins letters is.
func TestVisible(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, want string }{
		"plain":                {"Grafana", "Grafana"},
		"zero width space":     {"Gra\u200bfana", "Grafana"},
		"soft hyphen":          {"Gra\u00adfana", "Grafana"},
		"byte order mark":      {"\ufeffGrafana", "Grafana"},
		"mark of direction":    {"Grafana\u061c", "Grafana"},
		"tag":                  {"Grafana\U000e0041", "Grafana"},
		"Hangul filler":        {"Grafana\u3164", "Grafana"},
		"grapheme joiner":      {"Gra\u034ffana", "Grafana"},
		"joiner after Latin":   {"Gra\u200dfana", "Grafana"},
		"joiner of Persian":    {"\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"},
		"joiner of an emoji":   {"\U0001f469\u200d\U0001f4bb", "\U0001f469\u200d\U0001f4bb"},
		"nothing that shows":   {"\u200b\u00ad", ""},
		"two joiners in a row": {"\u0645\u200c\u200c\u062e", "\u0645\u200c\u200c\u062e"},
	} {
		if got := authn.Visible(c.in); got != c.want {
			t.Errorf("%s: Visible(%+q) = %+q, want %+q", name, c.in, got, c.want)
		}
	}
}
