package cli

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/trustedbrowser"
)

// personSearch is the selection by the flags of a list.
type personSearch struct {
	match, group, state string
	limit               int
}

func (s *personSearch) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.group, "group", "", "Only members of this group")
	f.StringVar(&s.state, "state", "", "Only people in this state: active, blocked, inactive, invited")
	limitFlag(cmd, &s.limit)
}

// print reads the persons page by page and prints them.
func (s *personSearch) print(cmd *cobra.Command) error {
	q := query(map[string]string{"match": s.match, "group": s.group, "state": s.state})
	return printList(cmd, "/persons", q, s.limit, "person", []string{"USERNAME", "STATE", "NAME", "GROUPS", "ID"}, personCells)
}

func personCells(p *person.Person) []string {
	return []string{adminapi.Typed(*p), strings.ToLower(string(p.State)), p.Name, strings.Join(p.Groups, ","), p.ID}
}

func listPersonsCommand() *cobra.Command {
	var s personSearch
	cmd := &cobra.Command{
		Use: "list", Short: "Lists all people by username", Args: cobra.NoArgs,
		Example: "  caddy gatehouse person list --group staff --state active",
		RunE:    func(cmd *cobra.Command, _ []string) error { return s.print(cmd) },
	}
	cmd.Flags().StringVar(&s.match, "match", "", "Only those whose username, name, e-mail or id contains this text")
	s.flags(cmd)
	return cmd
}

func findPersonsCommand() *cobra.Command {
	var s personSearch
	cmd := &cobra.Command{
		Use: "find <text>", Short: "Finds people by a part of their username, name, e-mail or id", Args: cobra.ExactArgs(1),
		Example: "  caddy gatehouse person find lovelace",
		RunE: func(cmd *cobra.Command, args []string) error {
			if s.match = args[0]; s.match == "" {
				return errors.New("want a text to find")
			}
			return s.print(cmd)
		},
	}
	s.flags(cmd)
	return cmd
}

func showPersonCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show <username or id>", Short: "Shows a person with sessions, applications and ways to sign in", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return show(cmd, "/persons/show?person="+url.QueryEscape(args[0]), nil, personLines)
		},
	}
}

// personLines is a person as text.
func personLines(p *adminapi.PersonDetails) []string {
	var f fields
	f.add("username", "%s", adminapi.Typed(p.Person))
	f.add("id", "%s", p.ID)
	f.add("state", "%s", strings.ToLower(string(p.State)))
	if !p.BlockedUntil.IsZero() {
		f.add("blocked", "until %s", day(p.BlockedUntil))
	}
	if !p.SignInWaits.IsZero() {
		f.add("sign-in", "waits until %s after failed attempts: `person unlock` ends that", day(p.SignInWaits))
	}
	f.add("name", "%s", p.Name)
	if p.Email != "" {
		verified := "not verified"
		if p.EmailVerified {
			verified = "verified"
		}
		f.add("e-mail", "%s (%s)", p.Email, verified)
	}
	f.add("phone", "%s", p.Phone)
	f.add("groups", "%s", strings.Join(p.Groups, " "))
	f.add("language", "%s", p.Locale)
	f.add("created", "%s", day(p.CreatedAt))
	f.add("changed", "%s", day(p.UpdatedAt))
	if !p.SignedIn.IsZero() {
		f.add("signed in", "%s", day(p.SignedIn))
	}
	for _, l := range p.Linked {
		f.add("linked", "%s", l.Name)
	}
	f.add("signs in with", "%s", strings.Join(waysIn(p), ", "))
	for _, planted := range p.Planted {
		f.add("not with a role", "%s", planted)
	}
	grant, grantCells := []string{"CLIENT", "SCOPE", "SINCE", "UNTIL"}, func(i *authz.Item) []string {
		return []string{i.ClientID, i.Scope, day(i.CreatedAt), day(i.ExpiresAt)}
	}
	return slices.Concat(
		f.lines(),
		section("session", sessionHeader, p.Sessions, sessionCells),
		section("trusted browser", []string{"ID", "SINCE", "LAST USED", "UNTIL", "ADDRESS"}, p.TrustedBrowsers,
			func(b *trustedbrowser.Info) []string {
				return []string{b.ID, day(b.TrustedAt), day(b.LastUsedAt), day(b.ExpiresAt), b.ClientIP}
			}),
		section("token grant", grant, p.Tokens, grantCells),
		section("consent", grant, p.Consents, grantCells),
		section("app password", []string{"ID", "NAME", "SITES", "UNTIL", "LAST USED", "FROM"}, p.AppPasswords, func(i *authz.Item) []string {
			return []string{i.ID, i.Name, strings.Join(i.Sites, " "), day(i.ExpiresAt), day(i.LastUsedAt), i.LastAddress}
		}),
	)
}

// section is an empty line and the table of what belongs to a person, or nothing.
func section[T any](noun string, header []string, all []T, cells func(*T) []string) []string {
	if len(all) == 0 {
		return nil
	}
	return append([]string{""}, tableOf(noun, header, all, cells).lines()...)
}

// waysIn names what the person can sign in and step up with.
func waysIn(p *adminapi.PersonDetails) (out []string) {
	if p.HasPassword {
		out = append(out, "password")
	}
	if n := p.StepUp.Passkeys; n > 0 {
		out = append(out, count(n, "passkey"))
	}
	if p.StepUp.Authenticator {
		out = append(out, "authenticator app", count(p.StepUp.RecoveryCodes, "recovery code"))
	}
	switch {
	case p.StepUp.PINLocked:
		out = append(out, "PIN (locked)")
	case p.StepUp.PIN:
		out = append(out, "PIN")
	}
	if n := p.StepUp.Phones; n > 0 {
		out = append(out, count(n, "phone"))
	}
	return out
}

func setPersonCommand() *cobra.Command {
	var username, name, given, family, email, locale string
	var verified bool
	cmd := &cobra.Command{
		Use: "set <username or id>", Short: "Changes a person's username, name, e-mail address or language", Args: cobra.ExactArgs(1),
		Long: `Changes what the flags name. A new e-mail address is not verified, unless --email-verified says so.
"person passwd" changes the password, "group join" and "group leave" the groups.`,
		Example: "  caddy gatehouse person set ada --name \"Ada Lovelace\" --email ada@example.com --email-verified",
		RunE: func(cmd *cobra.Command, args []string) error {
			in := adminapi.PersonChange{Person: args[0]}
			some := false
			for flag, set := range map[string]func(){
				"username": func() { in.Username = &username }, "name": func() { in.Name = &name }, "given-name": func() { in.GivenName = &given },
				"family-name": func() { in.FamilyName = &family }, "email": func() { in.Email = &email }, "locale": func() { in.Locale = &locale },
				"email-verified": func() { in.EmailVerified = &verified },
			} {
				if cmd.Flags().Changed(flag) {
					set()
					some = true
				}
			}
			if !some {
				return errors.New("nothing to change: give at least one flag, such as --name")
			}
			return tell(cmd, "/persons/change", in, func(p *person.Person) string { return "changed " + adminapi.Typed(*p) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&username, "username", "", "The username")
	f.StringVar(&name, "name", "", "The full name")
	f.StringVar(&given, "given-name", "", "The given name")
	f.StringVar(&family, "family-name", "", "The family name")
	f.StringVar(&email, "email", "", "The primary e-mail address; empty removes it")
	f.BoolVar(&verified, "email-verified", false, "Whether the address is known to be the person's")
	f.StringVar(&locale, "locale", "", "The language the person prefers, such as en or nl")
	return cmd
}

func personSessionsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "sessions <username or id>", Short: "Lists the sessions of a person", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return printList(cmd, "/sessions", url.Values{"person": {args[0]}}, 0, "session", sessionHeader, sessionCells)
		},
	}
}

func signOutCommand() *cobra.Command {
	return &cobra.Command{
		Use: "sign-out <username or id>", Short: "Ends every session and token of a person", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return do(cmd, "/persons/sign-out", adminapi.PersonRequest{Person: args[0]}, "signed "+args[0]+" out everywhere")
		},
	}
}

func revokeAppPasswordCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "revoke-app-password <username or id> [<id>]", Short: "Revokes an app password of a person, or all of them",
		Args: cobra.RangeArgs(1, 2),
		Long: `Revokes an app password of a person by the id that "person show" has, or all with --all.
"token revoke" takes an app password itself, where one was found in a wrong place.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := itemOrAll(args, all, "app password")
			if err != nil {
				return err
			}
			in, done := map[string]string{"person": args[0], "id": id}, "revoked every app password of "+args[0]
			if id != "" {
				done = "revoked " + id
			}
			return do(cmd, "/persons/app-passwords", in, done)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "Whether all of them are revoked")
	return cmd
}

// itemOrAll returns the id of what belongs to a person, the argument after them, or "" with --all. An empty argument is
// neither: a script with an unset variable would end all of them.
func itemOrAll(args []string, all bool, noun string) (id string, err error) {
	if len(args) == 2 {
		id = args[1]
	}
	if all != (len(args) == 1) || !all && id == "" {
		return "", fmt.Errorf("name the %s by the id that `person show` has, or give --all", noun)
	}
	return id, nil
}

func untrustCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "untrust <username or id> [<id>]", Short: "Ends the trust in a browser of a person, or in all of them", Args: cobra.RangeArgs(1, 2),
		Long: `Ends the trust in a browser, by the id that "person show" has, or in all of them with --all: there the person is asked
for the second factor again. Sessions go on; "person sign-out" ends them and the trust.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := itemOrAll(args, all, "browser")
			if err != nil {
				return err
			}
			in, done := map[string]string{"person": args[0], "id": id}, args[0]+" has no trusted browser any more"
			if id != "" {
				done = "browser " + id + " is no longer trusted"
			}
			return do(cmd, "/persons/untrust", in, done)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "Whether the trust in all of them ends")
	return cmd
}

func unlockCommand() *cobra.Command {
	var address string
	cmd := &cobra.Command{
		Use: "unlock [<username or id>]", Short: "Forgets failed sign-ins, so a person or an address need not wait",
		Args: cobra.MaximumNArgs(1),
		Long: `Forgets the failed sign-ins of a person, or what is counted against an address. "person unblock" lifts a block by an
administrator, "person remove-step-up" removes a locked PIN.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == (address != "") {
				return errors.New("name a person, or an address with --ip")
			}
			path, in, of := "/addresses/unlock", any(adminapi.AddressRequest{Address: address}), address
			if len(args) == 1 {
				path, in, of = "/persons/unlock", adminapi.PersonRequest{Person: args[0]}, args[0]
			}
			return tell(cmd, path, in, func(answer *adminapi.Unlocked) string {
				if answer.Counters == 0 {
					return of + " has no failed sign-ins"
				}
				return "forgot the failed sign-ins of " + of
			})
		},
	}
	cmd.Flags().StringVar(&address, "ip", "", "The IP address, or an IPv6 network, that need not wait")
	return cmd
}

func removePersonCommand() *cobra.Command {
	cmd := stateCommand("remove", "Removes a person permanently and frees the username", person.Removed)
	remove := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := confirm(cmd, "Remove "+args[0]+" permanently?"); err != nil {
			return err
		}
		return remove(cmd, args)
	}
	return yesFlag(cmd)
}
