package command

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/caddymodule/command/admin"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/finding"
	"github.com/gatehouse-id/gatehouse/identity/keypair"
)

// checkTimeout is how long the issuer's address may take to answer.
const checkTimeout = 5 * time.Second

func checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Checks the configuration, the running server and what they name",
		Long: `With --config the configuration is loaded as for a start, without starting it. Then the running
server is asked whether its storage takes writes and how long the certificates of the configuration last,
and the issuer's address whether it leads to this server. Each identity provider is asked for its metadata
and keys, the mail server whether it accepts Gatehouse, and the services for text messages and prompts
whether they answer. Each protected site is asked for its root without credentials, which it must refuse.
Warnings about the configuration and the machine are listed; the exit status is 0 only when nothing worse is found.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, raw, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			var lines []string
			var found []finding.Finding
			if file != "" {
				if found, err = finding.Collect(func() error { return validate(raw) }); err != nil {
					return fmt.Errorf("%s: %w", file, err)
				}
				lines = append(lines, "configuration  ok ("+file+")")
			}
			var answer admin.CheckAnswer
			if err := call(cmd, "/check", nil, &answer); err != nil {
				for _, f := range found {
					fmt.Fprintln(cmd.ErrOrStderr(), findingLine(f))
				}
				return err
			}
			for _, f := range slices.Concat(found, openSites(cmd.Context(), answer.Sites)) {
				if !slices.Contains(answer.Findings, f) {
					answer.Findings = append(answer.Findings, f)
				}
			}
			for _, f := range answer.Findings {
				if f.Severity == finding.Error && answer.Error == "" {
					answer.Error = f.String()
				}
			}
			answer.Address = "ok"
			if err := reach(cmd.Context(), answer.Issuer); err != nil {
				answer.Address = err.Error()
				if answer.Error == "" {
					answer.Error = "the issuer's address: " + err.Error()
				}
			}
			if err := printResult(cmd, answer, append(lines, checkLines(&answer)...)...); err != nil {
				return err
			}
			if answer.Error != "" {
				return errors.New(answer.Error)
			}
			return nil
		},
	}
}

// checkLines is the answer as text.
func checkLines(a *admin.CheckAnswer) []string {
	lines := []string{
		"server         running, " + count(a.Clients, "client"),
		"storage        " + a.Storage + " (" + a.Place + ", " + humanize.IBytes(a.Free) + " free)",
		"issuer         " + a.Address + " (" + a.Issuer + ")",
	}
	for _, f := range a.Findings {
		lines = append(lines, findingLine(f))
	}
	for _, e := range a.Certificates {
		lines = append(lines, certificateLine(e))
	}
	for _, id := range slices.Sorted(maps.Keys(a.Providers)) {
		lines = append(lines, "provider       "+id+": "+a.Providers[id])
	}
	for _, s := range []struct {
		name, said string
		waiting    int
	}{{"mail", a.Mail, a.MailWaiting}, {"sms", a.SMS, a.SMSWaiting}, {"push", a.Push, a.PushWaiting}} {
		if s.said != "" {
			lines = append(lines, fmt.Sprintf("%-14s %s (%d waiting)", s.name, s.said, s.waiting))
		}
	}
	return lines
}

func findingLine(f finding.Finding) string { return fmt.Sprintf("%-14s %s", f.Severity, f) }

// openSites asks the root of each protected site without credentials. Whatever the configuration says: a site that
// answers with its content is open.
func openSites(ctx context.Context, sites []string) (out []finding.Finding) {
	client := &http.Client{
		Timeout:       checkTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		// Nothing secret is sent, and only the status is read: a certificate of Caddy's own authority is as good.
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, Proxy: http.ProxyFromEnvironment}, //nolint:gosec // see above
	}
	defer client.CloseIdleConnections()
	for _, site := range sites {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, site+"/", nil)
		if err != nil {
			continue
		}
		resp, err := client.Do(req)
		if err != nil {
			out = append(out, finding.Finding{
				Severity: finding.Warning, Reason: "the protected site " + site + " cannot be asked from here whether it is open", Mend: "run the command where the address of the site leads to Caddy",
			})
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode >= 200 && resp.StatusCode < 300 {
			out = append(out, finding.Finding{
				Severity: finding.Error, Reason: fmt.Sprintf("the protected site %s answers %d to a request without credentials", site, resp.StatusCode),
				Mend: "look for what answers before `protect`, in Caddy or in front of it, or name the open path with `public`",
			})
		}
	}
	return out
}

// validate provisions a configuration, as `caddy validate` does.
func validate(raw []byte) error {
	var config caddy.Config
	if err := json.Unmarshal(raw, &config); err != nil {
		return err
	}
	return caddy.Validate(&config)
}

// reach asks the issuer's own address for its metadata: what clients will find there must be this issuer. (RFC 8414
// 3.3)
func reach(ctx context.Context, issuer string) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, issuer+"/.well-known/openid-configuration", nil)
	if err != nil {
		return err
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("cannot be reached from here: %w", err)
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("answers %d: does a site with the directive gatehouse have this address?", resp.StatusCode)
	}
	var metadata struct {
		Issuer string `json:"issuer"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, admin.MaxBody)).Decode(&metadata); err != nil {
		return fmt.Errorf("does not answer with its metadata: %w", err)
	}
	if metadata.Issuer != issuer {
		return fmt.Errorf("is another issuer, %s", metadata.Issuer)
	}
	return nil
}

// certificateLine is what check says of a certificate.
func certificateLine(e keypair.Expiry) string {
	name, state := e.Name, "until"
	if name == "" {
		name = "of Gatehouse itself"
	}
	switch {
	case e.Over:
		state = "EXPIRED on"
	case e.Soon:
		state = "ENDS SOON, on"
	}
	return fmt.Sprintf("certificate    %s: %s %s", name, state, e.NotAfter.UTC().Format(time.DateOnly))
}
