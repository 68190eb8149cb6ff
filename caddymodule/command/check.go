package command

import (
	"context"
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
whether they answer. The exit status is 0 only when everything is in order.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, raw, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			var lines []string
			if file != "" {
				if err := validate(raw); err != nil {
					return fmt.Errorf("%s: %w", file, err)
				}
				lines = append(lines, "configuration  ok ("+file+")")
			}
			var answer checkAnswer
			if err := call(cmd, "/check", nil, &answer); err != nil {
				return err
			}
			answer.Address = "ok"
			if err := reach(cmd.Context(), answer.Issuer); err != nil {
				answer.Address = err.Error()
				if answer.Error == "" {
					answer.Error = "the issuer's address: " + err.Error()
				}
			}
			if err := printResult(cmd, answer, append(lines, answer.lines()...)...); err != nil {
				return err
			}
			if answer.Error != "" {
				return errors.New(answer.Error)
			}
			return nil
		},
	}
}

// lines is the answer as text.
func (a *checkAnswer) lines() []string {
	lines := []string{
		"server         running, " + fmt.Sprint(a.Clients) + " clients",
		"storage        " + a.Storage + " (" + a.Place + ", " + humanize.IBytes(a.Free) + " free)",
		"issuer         " + a.Address + " (" + a.Issuer + ")",
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
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAdminBody)).Decode(&metadata); err != nil {
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
