// Package first writes the first Caddyfile of a new operator. What it asks and prints at a terminal is in package
// command.
package first

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/mail"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
)

// Site is what `init` asks for, and what it makes of it.
type Site struct {
	Domain    string   `json:"domain"`
	Upstream  string   `json:"upstream"`
	Email     string   `json:"email"`
	Issuer    string   `json:"issuer"` // the host
	Caddyfile string   `json:"caddyfile"`
	DNS       []string `json:"dns"`
	Ports     []string `json:"ports"`
	Next      []string `json:"next"`
}

// firstGroup is the group that the site demands and that the first administrator is in.
const firstGroup = "admins"

var firstCaddyfile = template.Must(template.New("Caddyfile").Parse(`# Written by caddy gatehouse init. Try changes with: caddy validate --config {{.Caddyfile}}
{
	email {{.Email}}
	gatehouse {
		issuer https://{{.Issuer}}
		identity {
			invitations on
		}
		# Without mail the links of invitations are printed, to be handed over.
		# mail smtp smtp.example.com:587 {
		# 	from no-reply@example.com
		# 	username ...
		# 	password {env.SMTP_PASSWORD}
		# }
	}
}

# The pages and endpoints of Gatehouse.
{{.Issuer}} {
	gatehouse
}

# The site that people sign in to.
{{.Domain}} {
	protect {
		login
		groups ` + firstGroup + `
	}
	reverse_proxy {{.Upstream}}
}
`))

var (
	hostSyntax     = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	upstreamSyntax = regexp.MustCompile(`^(https?://)?(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?$`)
	emailSyntax    = regexp.MustCompile("^[A-Za-z0-9.!#%&'*+/=?^_|~-]+@[A-Za-z0-9.-]+$")
)

// Check refuses what is no answer. Nothing else can get into the Caddyfile.
func (s *Site) Check() error {
	s.Domain, s.Issuer = strings.ToLower(s.Domain), strings.ToLower(s.Issuer)
	if s.Issuer == "" {
		s.Issuer = "auth." + s.Domain
	}
	for _, h := range []struct{ flag, host string }{{"domain", s.Domain}, {"issuer", s.Issuer}} {
		if len(h.host) > 253 || !hostSyntax.MatchString(h.host) || net.ParseIP(h.host) != nil {
			return fmt.Errorf("--%s: %q is not the name of a host: write it like wiki.example.com, without https:// and path, and other alphabets as xn--", h.flag, h.host)
		}
	}
	if s.Domain == s.Issuer {
		return fmt.Errorf("--issuer: the sign-in pages need a host of their own, such as auth.%s", s.Domain)
	}
	if !upstreamSyntax.MatchString(s.Upstream) {
		return fmt.Errorf("--upstream: %q is not an address such as localhost:9001 or https://10.0.0.5", s.Upstream)
	}
	if a, err := mail.ParseAddress(s.Email); err != nil || a.Address != s.Email || !emailSyntax.MatchString(s.Email) {
		return fmt.Errorf("--email: %q is not an e-mail address such as ada@example.com", s.Email)
	}
	return nil
}

// Write makes the file, or none. An existing one stays.
func (s *Site) Write(dir string) (err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if strings.ContainsAny(dir, "{}\"`\\\n") {
		return fmt.Errorf("--dir: %s has a character that means something else in a Caddyfile", dir)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("--dir: there is no directory %s: make it first", dir)
	}
	s.Caddyfile = filepath.Join(dir, "Caddyfile")
	s.explain()
	var text strings.Builder
	if err := firstCaddyfile.Execute(&text, s); err != nil {
		return err
	}
	if err := writeFirst(s.Caddyfile, text.String()); err != nil {
		return err
	}
	if err := s.try(text.String()); err != nil {
		return errors.Join(err, os.Remove(s.Caddyfile))
	}
	return nil
}

// writeFirst writes a file that does not exist yet.
func writeFirst(name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // it holds no secrets, and Caddy runs as a user of its own
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists, and is not overwritten: move it away, or name another directory with --dir", name)
	}
	if err != nil {
		return err
	}
	if _, err = io.WriteString(f, text); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}

// try validates what was written, without Caddy's own messages.
func (s *Site) try(text string) error {
	raw, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": s.Caddyfile})
	if err != nil {
		return err
	}
	var config caddy.Config
	if err := json.Unmarshal(raw, &config); err != nil {
		return err
	}
	config.Logging = &caddy.Logging{Logs: map[string]*caddy.CustomLog{"default": {BaseLog: caddy.BaseLog{Level: "ERROR"}}}}
	return caddy.Validate(&config)
}

// explain says what has to be done before and after the start.
func (s *Site) explain() {
	s.DNS = []string{s.Domain, s.Issuer}
	s.Ports = []string{"80/tcp", "443/tcp", "443/udp"}
	s.Next = []string{
		"caddy run --config " + s.Caddyfile,
		"caddy gatehouse person invite " + s.Email + " --groups " + firstGroup,
	}
}

// Lines says what was written and what is to be done next.
func (s *Site) Lines() []string {
	dns := "DNS            A and AAAA records of " + strings.Join(s.DNS, " and ") + " lead to this machine"
	if s.Domain == "localhost" || strings.HasSuffix(s.Domain, ".localhost") {
		dns = "DNS            none is needed: browsers take " + strings.Join(s.DNS, " and ") + " for this machine"
	}
	return []string{
		"wrote          " + s.Caddyfile,
		dns,
		"ports          80 and 443 (TCP) for the sites and their certificates, 443 (UDP) for HTTP/3",
		"start          " + s.Next[0],
		"then           " + s.Next[1],
		"               prints a link: the person who opens it chooses how to sign in, and is the first administrator",
	}
}
