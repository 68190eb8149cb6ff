package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
	"github.com/gatehouse-id/gatehouse/identity/actiontoken"
)

func makeActionTokenCommand() *cobra.Command {
	var in adminapi.ActionTokenRequest
	var types, params []string
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:   "action <username or id>",
		Short: "Makes an action token for a person, to be processed by POST /api/credentials/token",
		Long: `Makes an action token: it does all of its actions, once, when an API client processes it.
The actions are LOGIN, PERSON_ACTIVATION, COUPLE_EXTERNAL_IDP_FROM_PARAMETERS (with the
parameters idp_id, external_id and optionally issuer) and COUPLE_EXTERNAL_IDP_FROM_SESSION
(with session_id). Standard output has only the token.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			in.Person, in.Make.TTL = args[0], int(ttl/time.Second)
			if ttl != 0 && ttl < time.Second {
				return errors.New("--ttl must be a second at least")
			}
			given := map[string]string{}
			for _, p := range params {
				name, value, ok := strings.Cut(p, "=")
				if !ok {
					return fmt.Errorf("--param %q is not name=value", p)
				}
				given[name] = value
			}
			for _, t := range types {
				a := actiontoken.Action{Type: t}
				if strings.HasPrefix(t, "COUPLE_") {
					a.Parameters = given
				}
				in.Make.Actions = append(in.Make.Actions, a)
			}
			return tell(cmd, "/persons/tokens", in, func(out *actiontoken.ActionToken) string { return out.Token })
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&types, "action", []string{actiontoken.ActionLogin}, "The actions, with commas between")
	f.StringArrayVar(&params, "param", nil, "A parameter of the coupling, name=value; may be given again")
	f.DurationVar(&ttl, "ttl", 0, "How long it is good (default: as the features unit says)")
	f.StringVar(&in.Make.RedirectURI, "redirect-uri", "", "Where the person goes afterwards; it must be whitelisted for action tokens")
	f.IntVar(&in.Make.Level, "level", 0, "The authentication level of the sign-in, 1 to 4 (default: as the features unit says)")
	f.BoolVar(&in.Make.AppToWeb, "app-to-web", false, "The sign-in is carried from an app to the web")
	return cmd
}

func revokeActionTokensCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "revoke-actions <username or id> [<id of the token>]",
		Short: "Revokes an action token of a person, or all of them",
		Args:  cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := map[string]string{"person": args[0]}
			if len(args) == 2 {
				in["id"] = args[1]
			}
			return tell(cmd, "/persons/tokens/revoke", in, func(out *adminapi.Outcome) string { return out.Status })
		},
	}
}
