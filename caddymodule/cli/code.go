package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
	"github.com/gatehouse-id/gatehouse/identity/challenge"
)

func codeCommand() *cobra.Command {
	var in adminapi.CodeRequest
	cmd := &cobra.Command{
		Use:   "code <username or id>",
		Short: "Makes a code that you bring to a person: by letter, by telephone, at a desk",
		Long: `Makes a code that you deliver to a person. It replaces the one before, and its bearer
counts as that person. It is shown this once; what is stored is a hash. Standard output
has only the code, standard error the time until which it is valid.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			in.Person = args[0]
			var out challenge.DeliveredCode
			if err := call(cmd, "/persons/codes", in, &out); err != nil {
				return err
			}
			note := "valid until " + out.ExpiresAt.UTC().Format(time.RFC3339)
			if out.NotBefore != nil {
				note = "good from " + out.NotBefore.UTC().Format(time.RFC3339) + " until " + out.ExpiresAt.UTC().Format(time.RFC3339)
			}
			if _, err := fmt.Fprintln(cmd.ErrOrStderr(), note); err != nil {
				return err
			}
			return printResult(cmd, out, out.Code)
		},
	}
	cmd.Flags().StringVar(&in.For, "for", "step-up", "What the code is for: "+strings.Join(challenge.DeliveredPurposes(), ", "))
	return cmd
}
