package web

import (
	"html/template"
	"testing"
)

// TestPlacesInFiles: a place is shown by the name of its file, with the directory where two files share a name, and the
// whole path on hover. What only looks like a place stays.
func TestPlacesInFiles(t *testing.T) {
	t.Parallel()
	f := &frame{files: func() []string {
		return []string{"/etc/caddy/Caddyfile", "/etc/a/site.conf", "/etc/b/site.conf", "other.conf"}
	}}
	for _, tc := range []struct{ name, in, want string }{
		{"alone", "/etc/caddy/Caddyfile:56", `<span title="/etc/caddy/Caddyfile:56">Caddyfile:56</span>`},
		{
			"in a sentence", "wiki.example.com (/etc/caddy/Caddyfile:5)",
			`wiki.example.com (<span title="/etc/caddy/Caddyfile:5">Caddyfile:5</span>)`,
		},
		{
			"two of a name", "/etc/a/site.conf:1, /etc/b/site.conf:2",
			`<span title="/etc/a/site.conf:1">a/site.conf:1</span>, <span title="/etc/b/site.conf:2">b/site.conf:2</span>`,
		},
		{"a path of a request", "GET /files/etc:12", "GET /files/etc:12"},
		{"a file without a line", "/etc/caddy/Caddyfile is there", "/etc/caddy/Caddyfile is there"},
		{"a relative file", "Caddyfile:3", "Caddyfile:3"},
		{"markup", "<b>/etc/caddy/Caddyfile:9</b> &lt;i&gt;", `<b><span title="/etc/caddy/Caddyfile:9">Caddyfile:9</span></b> &lt;i&gt;`},
	} {
		if got := string(f.placed(template.HTML(tc.in))); got != tc.want {
			t.Errorf("%s: placed(%q) = %q, want %q", tc.name, tc.in, got, tc.want)
		}
	}
}
