package console

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// clientField is a member of a client in the form that edits it.
type clientField struct {
	web.Field

	// option is the name of the member in errors of clients.
	option string
	get    func(c *client.Client) string
	// set takes what was typed, or says what is wrong with it.
	set func(c *client.Client, typed string) *layout.Problem
}

// value returns what a form says of the field. One that was not sent is as it was.
func (f *clientField) value(in url.Values, c *client.Client) string {
	if f.Type != "checkbox" && !in.Has(f.Name) {
		return f.get(c)
	}
	return strings.TrimSpace(unix(in.Get(f.Name)))
}

// unix is a text with the line ends that are stored. Forms send others.
func unix(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

func textField(name string, of func(c *client.Client) *string) clientField {
	return clientField{
		Field: web.Field{Name: name, MaxLength: 2048}, option: name,
		get: func(c *client.Client) string { return *of(c) },
		set: func(c *client.Client, typed string) *layout.Problem { *of(c) = typed; return nil },
	}
}

// listField has one in each line, or words with blanks between them.
func listField(name string, lines bool, of func(c *client.Client) *[]string) clientField {
	kind, between := "", " "
	if lines {
		kind, between = "textarea", "\n"
	}
	return clientField{
		Field: web.Field{Name: name, Type: kind, Hint: "console.field." + name + ".hint"}, option: name,
		get: func(c *client.Client) string { return strings.Join(*of(c), between) },
		set: func(c *client.Client, typed string) *layout.Problem { *of(c) = strings.Fields(typed); return nil },
	}
}

// groupsField has a group in each line, since their names can have blanks.
func groupsField() clientField {
	f := listField("client_groups", true, func(c *client.Client) *[]string { return &c.Groups })
	f.option = "groups"
	f.set = func(c *client.Client, typed string) *layout.Problem {
		c.Groups = nil
		for line := range strings.Lines(typed) {
			if name := strings.TrimSpace(line); name != "" {
				c.Groups = append(c.Groups, name)
			}
		}
		return nil
	}
	return f
}

func wordField(name string, words []string, of func(c *client.Client) *string) clientField {
	f := textField(name, of)
	f.Type, f.MaxLength = "select", 0
	for _, w := range words {
		f.Options = append(f.Options, web.Option{Value: w, Label: "console." + name + "." + cmp.Or(w, "default")})
	}
	return f
}

func flagField(name string, of func(c *client.Client) *bool) clientField {
	return clientField{
		Field: web.Field{Name: name, Type: "checkbox", Hint: "console.field." + name + ".hint"}, option: name,
		get: func(c *client.Client) string { return map[bool]string{true: "yes"}[*of(c)] },
		set: func(c *client.Client, typed string) *layout.Problem { *of(c) = typed != ""; return nil },
	}
}

func timeField(name string, of func(c *client.Client) *time.Duration) clientField {
	return clientField{
		Field: web.Field{Name: name, MaxLength: 32, Hint: "console.field." + name + ".hint"}, option: "lifetimes: " + name,
		get: func(c *client.Client) string { return spanText(*of(c)) },
		set: func(c *client.Client, typed string) *layout.Problem {
			if *of(c) = 0; typed == "" { // the default
				return nil
			}
			d, err := parseSpan(typed)
			if err != nil || d <= 0 {
				return &layout.Problem{Field: name, Key: "console.problem.duration"}
			}
			*of(c) = d
			return nil
		},
	}
}

// parseSpan reads a duration as people type it, in days or in smaller units: 30d, 12h, 15m.
func parseSpan(typed string) (time.Duration, error) {
	days, rest, found := strings.Cut(typed, "d")
	if !found {
		return time.ParseDuration(typed)
	}
	n, err := strconv.ParseUint(days, 10, 16)
	if err != nil {
		return 0, err
	}
	d := time.Duration(n) * 24 * time.Hour
	if rest == "" {
		return d, nil
	}
	more, err := time.ParseDuration(rest)
	return d + more, err
}

// spanText writes a duration as people type it: 30d, 12h, 15m. Empty: 0
func spanText(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d == 0:
		return ""
	case d%day == 0:
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	text := d.String()
	for _, none := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, none) {
			text = text[:len(text)-2]
		}
	}
	return text
}

func numberField(name string, least, most int, of func(c *client.Client) *int) clientField {
	return clientField{
		Field: web.Field{Name: name, InputMode: "numeric", MaxLength: 12, Required: true, Hint: "console.field." + name + ".hint"}, option: name,
		get: func(c *client.Client) string { return strconv.Itoa(*of(c)) },
		set: func(c *client.Client, typed string) *layout.Problem {
			n, err := strconv.Atoi(typed)
			if err != nil || n < least || n > most {
				return &layout.Problem{Field: name, Key: "console.problem.number", Fill: []any{"from", least, "to", most}}
			}
			*of(c) = n
			return nil
		},
	}
}

const maxSessions = 1000 // grants of one person that a client can have at a time

// clientFields are the members of the client that the person of the visit can change. How strongly people sign in is
// the owners', as in the settings. (docs/decisions/console.md#settings-of-sign-in)
func clientFields(v *layout.Visit) (out []clientField) {
	name := textField("name", func(c *client.Client) *string { return &c.Name })
	name.Label, name.MaxLength = "console.field.client_name", 128
	out = []clientField{
		name,
		listField("redirect_uris", true, func(c *client.Client) *[]string { return &c.RedirectURIs }),
		listField("post_logout_redirect_uris", true, func(c *client.Client) *[]string { return &c.PostLogoutRedirectURIs }),
		listField("cors_origins", true, func(c *client.Client) *[]string { return &c.Origins }),
		listField("grants", false, func(c *client.Client) *[]string { return &c.Grants }),
		listField("scopes", false, func(c *client.Client) *[]string { return &c.Scopes }),
		listField("default_scopes", false, func(c *client.Client) *[]string { return &c.DefaultScopes }),
		listField("audiences", true, func(c *client.Client) *[]string { return &c.Audiences }),
		groupsField(),
		wordField("consent", []string{"on", "always", "off"}, func(c *client.Client) *string { return &c.Consent }),
		wordField("token_format", []string{"opaque", "jwt"}, func(c *client.Client) *string { return &c.TokenFormat }),
		timeField("access_token", func(c *client.Client) *time.Duration { return &c.Lifetimes.AccessToken }),
		timeField("refresh_token", func(c *client.Client) *time.Duration { return &c.Lifetimes.RefreshToken }),
		timeField("refresh_chain", func(c *client.Client) *time.Duration { return &c.Lifetimes.RefreshChain }),
		timeField("session", func(c *client.Client) *time.Duration { return &c.Lifetimes.Session }),
		numberField("max_sessions", 1, maxSessions, func(c *client.Client) *int { return &c.MaxSessions }),
		flagField("id_token_claims", func(c *client.Client) *bool { return &c.IDTokenClaims }),
	}
	out[3].option, out[5].Hint = "origins", "console.field.client_scopes.hint"
	if !shownClient(v).Public {
		out = append(out, flagField("pkce_required", func(c *client.Client) *bool { return &c.PKCERequired }))
	}
	out = append(out,
		textField("backchannel_logout_uri", func(c *client.Client) *string { return &c.BackchannelLogoutURI }),
		textField("frontchannel_logout_uri", func(c *client.Client) *string { return &c.FrontchannelLogoutURI }),
		textField("initiate_login_uri", func(c *client.Client) *string { return &c.InitiateLoginURI }),
		textField("plan", func(c *client.Client) *string { return &c.Plan }),
		textField("contact", func(c *client.Client) *string { return &c.Contact }),
	)
	for i := range out {
		if f := &out[i]; f.Name == "plan" || f.Name == "contact" {
			f.Hint = "console.field." + f.Name + ".hint"
		}
	}
	if v.Role == layout.Owner {
		out = append(out, wordField("second_factor",
			[]string{"", authn.SecondFactorWhenSetUp, authn.SecondFactorAlways, authn.SecondFactorOnDemand},
			func(c *client.Client) *string { return &c.SecondFactor }),
			listField("idps", false, func(c *client.Client) *[]string { return &c.IDPs }))
	}
	return out
}

// askEditClient asks for the members of a client. A form that was opened before a change by someone else shows both
// values.
func (c *Console) askEditClient(v *layout.Visit) (layout.Question, error) {
	a := shownClient(v)
	q := layout.Question{Submit: "console.save", Hidden: []web.Hidden{{Name: "seen", Value: a.Mark}}}
	sent := v.PostForm.Get("seen")
	t := &web.Table{
		Label:   web.Say("console.unit.typed"),
		Columns: []string{"console.column.member", "console.column.now", "console.column.typed"},
	}
	for _, f := range clientFields(v) {
		now := f.get(&a.Client)
		if f.Value = now; f.Type == "checkbox" {
			f.Value, f.Checked = "", now != ""
		}
		q.Fields = append(q.Fields, f.Field)
		if typed := f.value(v.PostForm, &a.Client); typed != now {
			t.Rows = append(t.Rows, web.TableRow{Cells: []web.Cell{
				{Text: web.Say(cmp.Or(f.Label, "console.field."+f.Name))},
				layout.OrNone(now), layout.OrNone(typed),
			}})
		}
	}
	if sent != "" && sent != a.Mark && len(t.Rows) > 0 {
		q.Parts = []web.ConsolePart{{ID: "typed", Title: web.Say("console.unit.typed"), Text: web.Say("console.unit.typed.text"), Table: t}}
	}
	return q, nil
}

// editClient saves the members that differ from what the form has shown.
func (c *Console) editClient(v *layout.Visit, in url.Values) (layout.Result, error) {
	a := shownClient(v)
	if in.Get("seen") != a.Mark {
		return layout.Result{}, &layout.Problem{Key: "console.settings.moved"}
	}
	fields := slices.DeleteFunc(clientFields(v), func(f clientField) bool { return f.value(in, &a.Client) == f.get(&a.Client) })
	if len(fields) == 0 { // saved as it was
		return layout.Result{}, nil
	}
	var names []string
	for i := range fields {
		names = append(names, fields[i].Name)
	}
	err := c.Clients.Edit(v.Context(), a.ID, a.Mark, strings.Join(names, ", "), v.Actor(), func(n *client.Client) error {
		before := slices.Clone(n.Grants)
		for i := range fields {
			if wrong := fields[i].set(n, fields[i].value(in, &a.Client)); wrong != nil {
				return wrong
			}
		}
		return mayGive(v, before, n)
	})
	return layout.Result{}, blamedClient(err, fields)
}

// ordinaryGrants are those that an operator gives: with them people sign in at Gatehouse, or no one does.
var ordinaryGrants = []string{client.GrantCode, client.GrantRefreshToken, client.GrantClientCredentials, client.GrantDevice}

// mayGive refuses an operator what makes of an application someone who can be anyone. before are its grants until now.
func mayGive(v *layout.Visit, before []string, n *client.Client) error {
	if v.Role == layout.Owner {
		return nil
	}
	if slices.Contains(n.Scopes, provisioningScope) {
		return &layout.Problem{Field: "scopes", Key: "console.problem.scope_not_yours", Fill: []any{"scope", provisioningScope}}
	}
	for _, g := range n.Grants {
		if !slices.Contains(ordinaryGrants, g) && !slices.Contains(before, g) {
			return &layout.Problem{
				Field: "grants", Key: "console.problem.grant_not_yours",
				Fill: []any{"grant", g, "grants", strings.Join(ordinaryGrants, ", ")},
			}
		}
	}
	return nil
}

// blamedClient returns an error about a client as a problem of the first field that it names, or of the first one that
// was changed. Other errors stay.
func blamedClient(err error, changed []clientField) error {
	wrong := layout.ProblemOf(err)
	if wrong == nil || wrong.Key != "console.problem.client" {
		return err
	}
	text, first := err.Error(), -1
	_, text, _ = strings.Cut(text, `": `) // the client
	out := &layout.Problem{Field: changed[0].Name, Key: wrong.Key, Fill: []any{"reason", web.Foreign(text)}}
	for i := range changed {
		at := regexp.MustCompile(`(^|; )` + regexp.QuoteMeta(changed[i].option) + `\b`).FindStringIndex(text)
		if at != nil && (first < 0 || at[0] < first) {
			first, out.Field = at[0], changed[i].Name
		}
	}
	return out
}
