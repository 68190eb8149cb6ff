package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
	"github.com/gatehouse-id/gatehouse/identity/person"
)

const maxPasswordFile = 4096 // bytes

// newPerson is identity.NewPerson as it goes over the admin API, where the password must be readable.
type newPerson struct {
	Username      string   `json:"username"`
	Password      string   `json:"password,omitempty"`
	Name          string   `json:"name,omitempty"`
	GivenName     string   `json:"given_name,omitempty"`
	FamilyName    string   `json:"family_name,omitempty"`
	Email         string   `json:"email,omitempty"`
	EmailVerified *bool    `json:"email_verified,omitempty"`
	Groups        []string `json:"groups,omitempty"`
	Locale        string   `json:"locale,omitempty"`
	Partition     string   `json:"partition,omitempty"`
	Profile       profile  `json:"profile,omitzero"`
}

// profile has those members of a person.Profile that newPerson does not have itself.
type profile struct {
	DateOfBirth  string               `json:"date_of_birth,omitempty"`
	PhoneNumbers []person.PhoneNumber `json:"phone_numbers,omitempty"`
}

func personCommands() *cobra.Command {
	cmd := group("person", "Adds, shows, changes and blocks people, and withdraws what they allowed or set up",
		addPersonCommand(), inviteCommand(), listPersonsCommand(), findPersonsCommand())
	cmd.AddCommand(completeArguments(completePersons,
		showPersonCommand(), setPersonCommand(), passwdCommand(), personSessionsCommand(),
		signOutCommand(), untrustCommand(), revokeAppPasswordCommand(), unlockCommand(),
		blockCommand(),
		stateCommand("unblock", "Lets a blocked person sign in again", person.Active),
		removePersonCommand(),
		mergeCommand(), withdrawCommand(), stepUpCommand(), codeCommand())...)
	return cmd
}

func addPersonCommand() *cobra.Command {
	var p newPerson
	var verified, without bool
	var phones []string
	cmd := &cobra.Command{
		Use:   "add <username>",
		Short: "Adds a person",
		Long: `Adds a person. The password is asked for at the terminal, or read as the first line
of --password-file or of standard input; it is never given as an argument. A
username that is an e-mail address counts as the person's verified e-mail.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			p.Username = args[0]
			if cmd.Flags().Changed("email-verified") {
				p.EmailVerified = &verified
			}
			for i, n := range phones {
				p.Profile.PhoneNumbers = append(p.Profile.PhoneNumbers, person.PhoneNumber{Primary: i == 0, Value: n})
			}
			if !without {
				if p.Password, err = readPassword(cmd); err != nil {
					return err
				}
			}
			return tell(cmd, "/persons", p, func(p *person.Person) string { return fmt.Sprintf("added %s (%s)", p.Username, p.ID) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&p.Name, "name", "", "The full name")
	f.StringVar(&p.GivenName, "given-name", "", "The given name")
	f.StringVar(&p.FamilyName, "family-name", "", "The family name")
	f.StringVar(&p.Email, "email", "", "The e-mail address, where it is not the username")
	f.BoolVar(&verified, "email-verified", false, "Whether the address is known to be the person's")
	f.StringSliceVar(&phones, "phone", nil, "The telephone numbers, with commas between; the first is the primary one")
	f.StringVar(&p.Profile.DateOfBirth, "birth-date", "", "The date of birth, such as 1990-12-31")
	f.StringSliceVar(&p.Groups, "groups", nil, "The groups the person is in, with commas between")
	f.StringVar(&p.Locale, "locale", "", "The language the person prefers, such as en or nl")
	f.StringVar(&p.Partition, "partition", "", `The partition; partition\username names it too`)
	f.BoolVar(&without, "no-password", false, "Add the person without a password")
	passwordFlag(cmd)
	return cmd
}

func passwdCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "passwd <username or id>",
		Short: "Changes a person's password and ends earlier sessions and tokens",
		Long: `Changes a person's password. It is asked for at the terminal, or read as the first
line of --password-file or of standard input. Earlier sessions and tokens end.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			password, err := readPassword(cmd)
			if err != nil {
				return err
			}
			if err := call(cmd, "/persons/password", map[string]string{"person": args[0], "password": password}, nil); err != nil {
				return err
			}
			return printResult(cmd, adminapi.Outcome{Status: "changed"}, "changed the password of "+args[0])
		},
	}
	passwordFlag(cmd)
	return cmd
}

func stateCommand(use, short string, state person.State) *cobra.Command {
	return &cobra.Command{
		Use: use + " <username or id>", Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return setState(cmd, adminapi.StateRequest{Person: args[0], State: state}, "")
		},
	}
}

func setState(cmd *cobra.Command, in adminapi.StateRequest, until string) error {
	return tell(cmd, "/persons/state", in, func(answer *adminapi.Outcome) string {
		done := in.Person + " is " + strings.ToLower(answer.Status)
		if until != "" {
			done += " until " + until
		}
		return done
	})
}

func blockCommand() *cobra.Command {
	var until, reason string
	cmd := &cobra.Command{
		Use: "block <username or id>", Short: "Blocks a person and ends the sessions and tokens", Args: cobra.ExactArgs(1),
		Long: `Blocks a person: sessions and tokens end immediately, and no one can sign in to the account.
With --until the block ends automatically. Blocking again changes the time.`,
		Example: "  caddy gatehouse person block ada --until 2027-01-31 --reason \"on leave\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			in := adminapi.StateRequest{Person: args[0], State: person.Blocked, Reason: reason}
			if until != "" {
				at, err := time.Parse(time.RFC3339, until)
				if err != nil {
					if at, err = time.Parse(time.DateOnly, until); err != nil {
						return fmt.Errorf("--until %q: want a day such as 2027-01-31, or a time such as 2027-01-31T08:00:00Z", until)
					}
				}
				in.Until = at
			}
			return setState(cmd, in, until)
		},
	}
	cmd.Flags().StringVar(&until, "until", "", "When the block ends: a day, at 00:00 UTC, or a time")
	cmd.Flags().StringVar(&reason, "reason", "", "Why, for the event")
	return cmd
}

func stepUpCommand() *cobra.Command {
	var mail bool
	cmd := &cobra.Command{
		Use:   "remove-step-up <username or id> <authenticator|pin|push|passkey>",
		Short: "Takes an authenticator app, a PIN, phones or passkeys off a person who cannot use them any more",
		Long: `Takes an authenticator app, with its recovery codes, a PIN, all phones that are
asked, or all passkeys off a person:
after the loss of a phone, or when the PIN is locked. The person can set up others.
With --mail they are told by e-mail, with a link to the page for that; of passkeys
they are told in any case.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := map[string]any{"person": args[0], "remove": args[1], "mail": mail}
			return do(cmd, "/persons/step-up", in, fmt.Sprintf("removed the %s of %s", args[1], args[0]))
		},
	}
	cmd.Flags().BoolVar(&mail, "mail", false, "Whether the person is told by e-mail")
	return cmd
}

func withdrawCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "withdraw <username or id> <client>",
		Short: "Withdraws what a person allowed a client",
		Long: `Forgets the consent that a person gave a client, and ends every token that the client got from it.
The client has to ask again.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := map[string]string{"person": args[0], "client": args[1]}
			return tell(cmd, "/persons/withdraw", in, func(w *adminapi.Withdrawal) string {
				return fmt.Sprintf("withdrawn; grants ended: %d", w.Grants)
			})
		},
	}
}

func passwordFlag(cmd *cobra.Command) {
	cmd.Flags().String("password-file", "", "Read the password from the first line of this file")
}

// readPassword asks at a terminal, twice and unseen, or takes the first line of the file or of standard input. A
// password as an argument could be seen by all users of the machine.
func readPassword(cmd *cobra.Command) (string, error) {
	file, err := cmd.Flags().GetString("password-file")
	if err != nil {
		return "", err
	}
	if file != "" {
		f, err := os.Open(file)
		if err != nil {
			return "", err
		}
		defer f.Close() //nolint:errcheck // only read
		return firstLine(f)
	}
	if !isTerminal(cmd.InOrStdin()) {
		return firstLine(cmd.InOrStdin())
	}
	in := cmd.InOrStdin().(*os.File) //nolint:forcetypeassert // as isTerminal has found
	ask := func(prompt string) (string, error) {
		fmt.Fprint(cmd.ErrOrStderr(), prompt) //nolint:errcheck // the terminal is gone
		raw, err := term.ReadPassword(int(in.Fd()))
		fmt.Fprintln(cmd.ErrOrStderr()) //nolint:errcheck // the terminal is gone
		return string(raw), err
	}
	first, err := ask("Password: ")
	if err != nil {
		return "", err
	}
	second, err := ask("Once more: ")
	if err != nil {
		return "", err
	}
	if first != second {
		return "", errors.New("the two passwords differ")
	}
	if first == "" {
		return "", errNoPassword
	}
	return first, nil
}

// isTerminal reports whether someone sits at the other end: they can answer a question, and see what is redrawn.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

var errNoPassword = errors.New("no password given: type it at the terminal, or use --password-file or standard input")

func firstLine(r io.Reader) (string, error) {
	line, err := bufio.NewReader(io.LimitReader(r, maxPasswordFile)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return "", errNoPassword
	}
	return line, nil
}
