package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/identity/invitation"
)

func inviteCommand() *cobra.Command {
	var in invitation.NewInvitation
	var again bool
	cmd := &cobra.Command{
		Use:   "invite <e-mail address>",
		Short: "Invites a person to an account, or sends an invitation again",
		Long: `Makes a person who is invited, and sends a link to the address: the person who opens it within
7 days chooses a password or another way of signing in. Where no e-mail is sent, the
link is printed, and is to be handed over. With --again the argument is the username
or id of a person who is invited already: the earlier link stops working.
"person remove" withdraws an invitation.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, body := "/persons/invitations", any(&in)
			if in.Email = args[0]; again {
				path, body = "/persons/invitations/again", map[string]string{"person": args[0]}
			}
			var out invitation.Invitation
			if err := call(cmd, path, body, &out); err != nil {
				return err
			}
			until := "valid until " + out.ExpiresAt.UTC().Format(time.RFC3339)
			if out.Sent {
				return printResult(cmd, out, fmt.Sprintf("invited %s (%s); the link goes to %s, %s", out.Username, out.PersonID, out.Email, until))
			}
			if _, err := fmt.Fprintf(cmd.ErrOrStderr(), "invited %s (%s); no e-mail is sent: hand the link over, %s\n", out.Username,
				out.PersonID, until); err != nil {
				return err
			}
			return printResult(cmd, out, out.Link)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&again, "again", false, "Send a person who is invited already another link")
	f.StringVar(&in.Username, "username", "", "The username, where it is not the address")
	f.StringVar(&in.Name, "name", "", "The full name")
	f.StringVar(&in.GivenName, "given-name", "", "The given name")
	f.StringVar(&in.FamilyName, "family-name", "", "The family name")
	f.StringSliceVar(&in.PhoneNumbers, "phone", nil, "The telephone numbers, with commas between; the first may get a code")
	f.StringVar(&in.DateOfBirth, "birth-date", "", "The date of birth, such as 1990-12-31; it may be asked for")
	f.StringSliceVar(&in.Groups, "groups", nil, "The groups the person will be in, with commas between")
	f.StringVar(&in.Locale, "locale", "", "The language of the invitation, such as en or nl")
	f.StringVar(&in.Partition, "partition", "", "The partition")
	return cmd
}
