package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
	"github.com/gatehouse-id/gatehouse/caddymodule/explain"
)

func policyCommands() *cobra.Command {
	return group("policy", "Tests the rules of sites, and shows what other rules would change", policyTestCommand(),
		policyDiffCommand(), policyReplayCommand())
}

const maxSince = 7 * 24 * time.Hour

// decisions asks the server for what sites with shadow rules have decided.
func decisions(cmd *cobra.Command, since time.Duration) (a adminapi.DecisionsAnswer, err error) {
	if since <= 0 || since > maxSince {
		return a, fmt.Errorf("--since: want a duration up to 168h, such as 24h: decisions are kept for a week")
	}
	err = call(cmd, "/decisions?since="+url.QueryEscape(time.Now().Add(-since).UTC().Format(time.RFC3339)), nil, &a)
	return a, err
}

// printChanges prints who would be let in or refused.
func printChanges(cmd *cobra.Command, all int, lost int64, changes []explain.Change, more ...string) error {
	if changes == nil {
		changes = []explain.Change{}
	}
	slices.SortStableFunc(changes, func(a, b explain.Change) int {
		return cmp.Or(strings.Compare(a.Site, b.Site), strings.Compare(a.Username, b.Username),
			strings.Compare(a.Path, b.Path), a.At.Compare(b.At))
	})
	t := table{noun: "change", header: []string{"TIME", "WHO", "METHOD", "ADDRESS", "GOT", "WOULD GET", "RULE"}}
	for i := range changes {
		c := &changes[i]
		who := cmp.Or(c.Username, c.PersonID, c.ClientID, "a stranger")
		t.rows = append(t.rows, []string{
			c.At.Local().Format("2006-01-02 15:04"), who, c.Method, c.Site + c.Path, c.Live,
			string(c.Now), cmp.Or(c.Rule, "-"),
		})
	}
	lines := append(t.lines(), fmt.Sprintf("Compared: %s.", count(all, "decision")))
	if lost > 0 {
		lines = append(lines, fmt.Sprintf("Not kept, since there were too many at once: %s.", count(int(lost), "decision")))
	}
	return printResult(cmd, changes, append(lines, more...)...)
}

func policyDiffCommand() *cobra.Command {
	var since time.Duration
	cmd := &cobra.Command{
		Use:   "diff",
		Short: "Lists the people and paths that shadow rules would let in or refuse",
		Long: `Lists the requests that shadow rules would have let in although they were refused, or the reverse. Sites with
a shadow block keep their decisions for a week: one an hour for each caller, path and verdict, the newest
16,384, and at most 100 a second.`,
		Example: "  caddy gatehouse policy diff --since 24h",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := decisions(cmd, since)
			if err != nil {
				return err
			}
			return printChanges(cmd, len(a.Items), a.Lost, explain.Differences(a.Items))
		},
	}
	cmd.Flags().DurationVar(&since, "since", 24*time.Hour, "How far back to look, up to 168h")
	return cmd
}

func policyReplayCommand() *cobra.Command {
	var since time.Duration
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Lists the people that another configuration would let in or refuse, by recent requests",
		Long: `Puts the requests that sites with a shadow block have decided about to the sites of another configuration, which
--config names and which is not started, and lists those that would be let in although they were refused, or
the reverse. Queries and headers were not kept, so rules that ask for them see none. --address names the admin
API of the running server, if the other configuration has another.`,
		Example: "  caddy gatehouse policy replay --config new.Caddyfile --since 168h",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, raw, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			if file == "" {
				return errors.New("name the other configuration with --config")
			}
			a, err := decisions(cmd, since)
			if err != nil {
				return err
			}
			var changes []explain.Change
			unserved := 0
			if err := explain.Visit(cmd.Context(), raw, func(r *explain.Routes) (err error) {
				changes, unserved, err = r.Replay(cmd.Context(), a.Items, a.Profiles)
				return err
			}); err != nil {
				return err
			}
			var more []string
			if unserved > 0 {
				more = append(more, fmt.Sprintf("No site of %s answers: %s.", file, count(unserved, "request")))
			}
			return printChanges(cmd, len(a.Items), a.Lost, changes, more...)
		},
	}
	cmd.Flags().DurationVar(&since, "since", maxSince, "How far back to look, up to 168h")
	return cmd
}

func policyTestCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "test <file>",
		Short: "Tests the rules of a configuration against a file of cases",
		Long: `Loads the configuration that --config names, without starting it, puts the requests of a file to its sites, and
compares what they get with what the file wants. It needs no server. The exit status is 0 only when all agree, and
each mismatch is reported with its line and the deciding rule. The file:

  site https://wiki.example.com
  at   2026-11-23T12:00:00Z
  person ada {
      groups staff admins
      level  2
  }
  allow    ada  GET   /reports/1      rule reports
  step-up  ada  POST  /admin/users
  deny     ada  GET   /archive/1      ip 203.0.113.7
  sign-in  -    GET   /reports/1

A case is a verdict (allow, deny, sign-in, step-up, renew, public, invalid, or ? to be told), who, the method and the
path, then pairs of rule, at, ip, level, age or header and a value. A person has groups, level, age, provider,
partition, id and claim; with scopes or client it is an access token. A client has scopes.`,
		Example: "  caddy gatehouse policy test wiki.cases --config Caddyfile",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := os.ReadFile(args[0])
			if err != nil {
				return err
			}
			cases, err := explain.ReadCases(text, args[0], nil)
			if err != nil {
				return err
			}
			file, raw, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			if file == "" {
				return errors.New("name the configuration with --config")
			}
			var results []explain.Outcome
			if err := explain.Visit(cmd.Context(), raw, func(r *explain.Routes) (err error) {
				results, err = cases.Run(cmd.Context(), r.Ask, time.Now())
				return err
			}); err != nil {
				return err
			}
			failed := 0
			var lines []string
			for _, o := range results {
				if !o.OK {
					failed++
				}
				if o.Reason != "" {
					lines = append(lines, o.Case+": "+o.Reason)
				}
			}
			lines = append(lines, fmt.Sprintf("%s: %d ok, %d failed", count(len(results), "case"), len(results)-failed, failed))
			if err := printResult(cmd, results, lines...); err != nil {
				return err
			}
			if failed > 0 {
				return fmt.Errorf("%d of %s failed", failed, count(len(results), "case"))
			}
			return nil
		},
	}
}
