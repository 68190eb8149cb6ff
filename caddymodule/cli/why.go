package cli

import (
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
	"github.com/gatehouse-id/gatehouse/internal/denial"
)

func whyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "why <reference>",
		Short: "Explains why a request was refused",
		Long: `Takes the reference on the page, in the answer or in the log line of a refusal, and shows who
was refused what and why, and what would let them in. The reference is read in either case, with or without
the dash. References are kept for 24 hours: the newest 8,192, and at most 100 a second.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := denial.ParseRef(args[0])
			if err != nil {
				return err
			}
			return show(cmd, "/why?"+url.Values{"ref": {ref}}.Encode(), nil, func(a *adminapi.WhyAnswer) []string {
				return []string{a.At.Format(time.RFC3339) + "  " + a.Sentence, a.Fix}
			})
		},
	}
}
