// Package initwizard writes the first Caddyfile of a new operator from the answers to a few questions.
package initwizard

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
)

// Site are the answers to the questions of `init`, and the site that it makes of them.
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

// Who can open the site: the owners of the console, and people who are invited as readers.
const (
	ownerGroup  = "gatehouse-owner"
	readerGroup = "readers"
)

var firstCaddyfile = template.Must(template.New("Caddyfile").Parse(`# Written by caddy gatehouse init. Try changes with: caddy validate --config {{.Caddyfile}}
{
	email {{.Email}}
	servers {
		# Keeps connections over reloads.
		listener_wrappers {
			gatehouse
			tls
		}
	}
	gatehouse {
		issuer https://{{.Issuer}}
		identity {
			# The first administrator. The admin console is at https://{{.Issuer}}/admin.
			admin {{.Email}}
			set_up_on_demand on # people set up a second factor where one is demanded, as the console does
			invitations on
			# A copied session cookie opens nothing after ten minutes, in browsers that can bind sessions to their device.
			# device_bound on
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
		groups ` + ownerGroup + " " + readerGroup + `
	}
	reverse_proxy {{.Upstream}}
}
`))

// Check replaces the answers by what they mean, and refuses the others. Nothing else can get into the Caddyfile.
func (s *Site) Check() (err error) {
	if s.Domain, err = Host(s.Domain); err != nil {
		return fmt.Errorf("--domain: %w", err)
	}
	if s.Issuer == "" {
		s.Issuer = "auth." + s.Domain
	}
	if s.Issuer, err = Host(s.Issuer); err != nil {
		return fmt.Errorf("--issuer: %w", err)
	}
	if s.Domain == s.Issuer {
		return fmt.Errorf("--issuer: the sign-in pages need a host of their own, such as auth.%s", s.Domain)
	}
	if s.Upstream, err = Upstream(s.Upstream); err != nil {
		return fmt.Errorf("--upstream: %w", err)
	}
	if host, _ := splitUpstream(s.Upstream); host == s.Domain || host == s.Issuer {
		return fmt.Errorf("--upstream: %s is served by Caddy itself: name where the site is served now, such as localhost:9001", host)
	}
	if s.Email, err = Email(s.Email); err != nil {
		return fmt.Errorf("--email: %w", err)
	}
	return nil
}

// Place says where Write puts the file, or why it cannot.
func (s *Site) Place(dir string) (err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if strings.ContainsAny(dir, "{}\"`\\\n") {
		return fmt.Errorf("--dir: %s has a character with a special meaning in a Caddyfile", dir)
	}
	missing := dir // or what must be there to make it
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		missing = filepath.Dir(dir)
	}
	if info, err := os.Stat(missing); err != nil || !info.IsDir() {
		return fmt.Errorf("--dir: there is no directory %s: make it first", missing)
	}
	s.Caddyfile = filepath.Join(dir, "Caddyfile")
	if _, err := os.Lstat(s.Caddyfile); err == nil {
		return exists(s.Caddyfile)
	}
	return nil
}

func exists(name string) error {
	return fmt.Errorf("%s exists, and is not overwritten: move it away, or name another directory with --dir", name)
}

// Write makes the file at its Place, and the directory where that is missing, or neither. An existing file stays.
func (s *Site) Write() error {
	s.explain()
	var text strings.Builder
	if err := firstCaddyfile.Execute(&text, s); err != nil {
		return err
	}
	undo := func() error { return nil }
	switch err := os.Mkdir(filepath.Dir(s.Caddyfile), 0o755); { //nolint:gosec // Caddy runs as a user of its own
	case err == nil:
		undo = func() error { return os.Remove(filepath.Dir(s.Caddyfile)) }
	case !errors.Is(err, fs.ErrExist):
		return err
	}
	if err := writeFirst(s.Caddyfile, text.String()); err != nil {
		return errors.Join(err, undo())
	}
	if err := s.try(text.String()); err != nil {
		return errors.Join(err, os.Remove(s.Caddyfile), undo())
	}
	return nil
}

// writeFirst writes a file that does not exist yet.
func writeFirst(name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, //nolint:gosec // it holds no secrets, and Caddy runs as a user of its own
		0o644)
	if errors.Is(err, fs.ErrExist) {
		return exists(name)
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
		"caddy gatehouse admin invite " + s.Email,
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
		"               prints a link: the person who opens it chooses a password, and is the first administrator",
		"console        https://" + s.Issuer + "/admin",
		"more people    caddy gatehouse person invite <e-mail address> --groups " + readerGroup,
	}
}
