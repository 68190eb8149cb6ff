package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/admin/diagnostic"
	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
	"github.com/gatehouse-id/gatehouse/caddymodule/cli/inspect"
	"github.com/gatehouse-id/gatehouse/identity/keystore"
)

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
			if name, err := cmd.Flags().GetString("config"); err != nil || name != "" {
				if err := errors.Join(err, inspect.Quiet()); err != nil {
					return err
				}
			}
			file, raw, warnings, err := adaptConfig(cmd)
			if err != nil {
				return err
			}
			var lines []string
			var found []diagnostic.Finding
			if file != "" {
				if found, err = diagnostic.Collect(func() error { return inspect.Validate(raw) }); err != nil {
					return fmt.Errorf("%s: %w", file, err)
				}
				found = append(found, inspect.Reloads(raw)...)
				for _, w := range warnings {
					found = append(found, diagnostic.Finding{Severity: diagnostic.Warning, Place: fmt.Sprintf("%s:%d", w.File, w.Line), Reason: w.Message})
				}
				lines = append(lines, "configuration  ok ("+file+")")
			}
			var answer adminapi.CheckAnswer
			if err := call(cmd, "/check", nil, &answer); err != nil {
				for _, f := range found {
					fmt.Fprintln(cmd.ErrOrStderr(), findingLine(f))
				}
				return err
			}
			for _, f := range slices.Concat(found, inspect.OpenSites(cmd.Context(), answer.Sites)) {
				if !slices.ContainsFunc(answer.Findings, f.Same) {
					answer.Findings = append(answer.Findings, f)
				}
			}
			for _, f := range answer.Findings {
				if f.Severity == diagnostic.Error && answer.Error == "" {
					answer.Error = f.String()
				}
			}
			answer.Address = "ok"
			if err := inspect.Reach(cmd.Context(), answer.Issuer); err != nil {
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
func checkLines(a *adminapi.CheckAnswer) []string {
	lines := []string{
		"server         running, " + count(a.Clients, "client"),
		"storage        " + a.Storage + " (" + a.Place + ", " + humanize.IBytes(a.Free) + " free)",
		"issuer         " + a.Address + " (" + a.Issuer + ")",
	}
	if len(a.Findings) == 0 && a.Error == "" {
		lines = append(lines, "findings       no problems found")
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

func findingLine(f diagnostic.Finding) string { return fmt.Sprintf("%-14s %s", f.Severity, f) }

// certificateLine returns the line of check about a certificate.
func certificateLine(e keystore.Expiry) string {
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
