package command

import (
	"bufio"
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
	"github.com/spf13/cobra"
)

// beginning is what `init` asks for, and what it makes of it.
type beginning struct {
	Domain    string   `json:"domain"`
	Upstream  string   `json:"upstream"`
	Email     string   `json:"email"`
	Issuer    string   `json:"issuer"` // the host
	Caddyfile string   `json:"caddyfile"`
	Settings  string   `json:"settings"`
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
			# The settings that an empty storage starts with.
			bootstrap "{{.Settings}}"
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

const firstSettings = `{
	"features": {
		"accepting_invitation_enabled": true
	}
}
`

func initCommand() *cobra.Command {
	var b beginning
	var dir string
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Writes a first Caddyfile for a site behind a sign-in",
		Long: `Writes a Caddyfile that puts a site behind a sign-in, with a file of settings, and
says which DNS records and ports it needs and how the first administrator is
invited. What no flag gives is asked for. It needs no server, and overwrites no
file.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := b.ask(cmd); err != nil {
				return err
			}
			if err := b.check(); err != nil {
				return err
			}
			if err := b.write(dir); err != nil {
				return err
			}
			return printResult(cmd, b, b.lines()...)
		},
	}
	f := cmd.Flags()
	f.StringVar(&b.Domain, "domain", "", "The site that people sign in to, such as wiki.example.com")
	f.StringVar(&b.Upstream, "upstream", "", "Where the site is served now, such as localhost:9001")
	f.StringVar(&b.Email, "email", "", "The address of the first administrator, also for the certificates")
	f.StringVar(&b.Issuer, "issuer", "", "The host of the sign-in pages (default auth. and the domain)")
	f.StringVar(&dir, "dir", ".", "The directory that the files are written to")
	return cmd
}

// ask asks for what no flag has given, unless the output is for a program.
func (b *beginning) ask(cmd *cobra.Command) error {
	asJSON, err := cmd.Flags().GetBool("json")
	if err != nil {
		return err
	}
	in := bufio.NewReader(io.LimitReader(cmd.InOrStdin(), maxAdminBody))
	for _, q := range []struct {
		value    *string
		flag, of string
	}{
		{&b.Domain, "domain", "The site that people sign in to, such as wiki.example.com"},
		{&b.Upstream, "upstream", "Where it is served now, such as localhost:9001"},
		{&b.Email, "email", "The e-mail address of the first administrator"},
	} {
		if *q.value != "" {
			continue
		}
		if asJSON {
			return fmt.Errorf("--%s is missing", q.flag)
		}
		if _, err := fmt.Fprintf(cmd.ErrOrStderr(), "%s: ", q.of); err != nil {
			return err
		}
		line, err := in.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if *q.value = strings.TrimSpace(line); *q.value == "" {
			return fmt.Errorf("no %s given: answer the question, or name it with --%s", q.flag, q.flag)
		}
	}
	return nil
}

var (
	hostSyntax     = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	upstreamSyntax = regexp.MustCompile(`^(https?://)?(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?$`)
	emailSyntax    = regexp.MustCompile("^[A-Za-z0-9.!#%&'*+/=?^_|~-]+@[A-Za-z0-9.-]+$")
)

// check refuses what is no answer. Nothing else can get into the Caddyfile.
func (b *beginning) check() error {
	b.Domain, b.Issuer = strings.ToLower(b.Domain), strings.ToLower(b.Issuer)
	if b.Issuer == "" {
		b.Issuer = "auth." + b.Domain
	}
	for _, h := range []struct{ flag, host string }{{"domain", b.Domain}, {"issuer", b.Issuer}} {
		if len(h.host) > 253 || !hostSyntax.MatchString(h.host) || net.ParseIP(h.host) != nil {
			return fmt.Errorf("--%s: %q is not the name of a host: write it like wiki.example.com, without https:// and path, and other alphabets as xn--", h.flag, h.host)
		}
	}
	if b.Domain == b.Issuer {
		return fmt.Errorf("--issuer: the sign-in pages need a host of their own, such as auth.%s", b.Domain)
	}
	if !upstreamSyntax.MatchString(b.Upstream) {
		return fmt.Errorf("--upstream: %q is not an address such as localhost:9001 or https://10.0.0.5", b.Upstream)
	}
	if a, err := mail.ParseAddress(b.Email); err != nil || a.Address != b.Email || !emailSyntax.MatchString(b.Email) {
		return fmt.Errorf("--email: %q is not an e-mail address such as ada@example.com", b.Email)
	}
	return nil
}

// write makes both files, or none. An existing file stays.
func (b *beginning) write(dir string) (err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if strings.ContainsAny(dir, "{}\"`\\\n") {
		return fmt.Errorf("--dir: %s has a character that means something else in a Caddyfile", dir)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("--dir: there is no directory %s: make it first", dir)
	}
	b.Caddyfile, b.Settings = filepath.Join(dir, "Caddyfile"), filepath.Join(dir, "gatehouse.json")
	b.explain()
	var text strings.Builder
	if err := firstCaddyfile.Execute(&text, b); err != nil {
		return err
	}
	var made []string
	defer func() {
		if err != nil {
			for _, name := range made {
				err = errors.Join(err, os.Remove(name))
			}
		}
	}()
	for _, f := range []struct{ name, text string }{{b.Settings, firstSettings}, {b.Caddyfile, text.String()}} {
		if err := writeFirst(f.name, f.text); err != nil {
			return err
		}
		made = append(made, f.name)
	}
	return b.try(text.String())
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
func (b *beginning) try(text string) error {
	raw, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": b.Caddyfile})
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
func (b *beginning) explain() {
	b.DNS = []string{b.Domain, b.Issuer}
	b.Ports = []string{"80/tcp", "443/tcp", "443/udp"}
	b.Next = []string{
		"caddy run --config " + b.Caddyfile,
		"caddy gatehouse person invite " + b.Email + " --groups " + firstGroup,
	}
}

func (b *beginning) lines() []string {
	dns := "DNS            A and AAAA records of " + strings.Join(b.DNS, " and ") + " lead to this machine"
	if b.Domain == "localhost" || strings.HasSuffix(b.Domain, ".localhost") {
		dns = "DNS            none is needed: browsers take " + strings.Join(b.DNS, " and ") + " for this machine"
	}
	return []string{
		"wrote          " + b.Caddyfile + " and " + b.Settings,
		dns,
		"ports          80 and 443 (TCP) for the sites and their certificates, 443 (UDP) for HTTP/3",
		"start          " + b.Next[0],
		"then           " + b.Next[1],
		"               prints a link: the person who opens it chooses how to sign in, and is the first administrator",
	}
}
