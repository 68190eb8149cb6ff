package command

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/caddymodule/explain"
)

func policyCommands() *cobra.Command {
	return group("policy", "Tests the rules of sites", policyTestCommand())
}

func policyTestCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "test <file>",
		Short: "Tests the rules of a configuration against a file of cases",
		Long: `Loads the configuration that --config names, without starting it, puts the requests of a file to its sites, and
compares what they get with what the file wants. It needs no server. The exit status is 0 only when all agree, and
each case that does not is told with its line and the rule that decides. The file:

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

A case is a verdict (allow, deny, sign-in, step-up, renew, public, invalid), who, the method and the path, then pairs
of rule, at, ip, level, age or header and a value. A person has groups, level, age, provider, partition, id and claim;
with scopes or client it is an access token. A client has scopes.`,
		Example: "  caddy gatehouse policy test wiki.cases --config Caddyfile",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := os.ReadFile(args[0])
			if err != nil {
				return err
			}
			cases, err := explain.ReadCases(text, args[0])
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
				results, err = cases.Run(cmd.Context(), r, time.Now())
				return err
			}); err != nil {
				return err
			}
			failed := 0
			var lines []string
			for _, o := range results {
				if !o.OK {
					failed++
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
