package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/admin/doctor"
)

// tokenVariable holds an access token for doctor: a flag would stand in the list of processes.
const tokenVariable = "GATEHOUSE_DOCTOR_TOKEN"

func doctorCommand() *cobra.Command {
	o := doctor.Options{}
	cmd := &cobra.Command{
		Use:   "doctor --proxy <name> <url>",
		Short: "Probes a proxy that asks Gatehouse for requests that get past it",
		Long: `Sends about forty requests to a protected page through the running proxy, and records what arrives at
the application: made-up identity headers in every spelling, headers that name another path or method, paths
that servers read differently, odd methods and cookies. Each must be refused, or arrive without what was made
up. The command stands in for the application: stop that one, or let the proxy pass a test site to --listen.

` + tokenVariable + ` holds a valid access token for the site; without it only refusals are probed.
Stop Gatehouse and run the command with --down: then nothing may arrive at all.
With --live the application stays: only requests that must be refused are sent, by methods that change nothing,
and the answers show what may have got past.

It needs no server of its own and no admin API. The exit status is 0 only if no probe has failed; with
--strict warnings count too.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("no address given: doctor probes a page behind another proxy, and check looks at a configuration")
			}
			return cobra.ExactArgs(1)(cmd, args)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Proxy, "proxy", "", "The proxy, for what to do about a failure: "+strings.Join(doctor.Proxies, ", "))
	flags.StringVar(&o.Listen, "listen", "127.0.0.1:9099", "The address that the proxy passes requests to, in place of the application")
	flags.StringVar(&o.Public, "public", "/healthz", "A path of the site that needs no credential, or looks as if it did not")
	flags.StringSliceVar(&o.Headers, "headers", nil, "The identity headers of the site, if they are not the default ones")
	flags.StringVar(&o.Connect, "connect", "", "The address of the proxy, if that of the URL leads elsewhere")
	flags.BoolVar(&o.Insecure, "insecure", false, "Accept any certificate of the proxy")
	flags.BoolVar(&o.Down, "down", false, "Gatehouse has been stopped: nothing may arrive")
	flags.BoolVar(&o.Live, "live", false, "The application stays at work, and the answers alone are judged")
	flags.DurationVar(&o.Wait, "timeout", 10*time.Second, "How long one answer may take")
	strict := flags.Bool("strict", false, "Count warnings as failures")
	if err := cmd.MarkFlagRequired("proxy"); err != nil {
		panic(err) // there is such a flag
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.URL, o.Token = args[0], os.Getenv(tokenVariable)
		report, err := doctor.Run(cmd.Context(), o)
		if err != nil {
			return err
		}
		if err := printResult(cmd, report, strings.TrimRight(reportTable(&report), "\n")); err != nil {
			return err
		}
		switch {
		case report.Failed > 0:
			return fmt.Errorf("%d of %d probes failed", report.Failed, len(report.Probes))
		case *strict && report.Warnings > 0:
			return fmt.Errorf("%d of %d probes gave a warning", report.Warnings, len(report.Probes))
		}
		return nil
	}
	return cmd
}

// reportTable writes one line for each probe, and below a failure what to do about it, once for each kind.
func reportTable(r *doctor.Report) string {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
	var fixes []string
	said := map[string]bool{}
	for _, p := range r.Probes {
		fmt.Fprintf(w, "%s\t%s\t%s\n", p.Verdict, p.Name, p.What)
		if p.Fix != "" && !said[p.Fix] {
			said[p.Fix] = true
			fixes = append(fixes, p.Name+":\n  "+p.Fix)
		}
	}
	w.Flush() //nolint:errcheck // into memory
	if len(fixes) > 0 {
		fmt.Fprintf(&b, "\nWhat to do with %s:\n%s\n", r.Proxy, strings.Join(fixes, "\n"))
	}
	fmt.Fprintf(&b, "\n%d probes, %d failed, %d warnings, %d skipped\n", len(r.Probes), r.Failed, r.Warnings, r.Skipped)
	return b.String()
}
