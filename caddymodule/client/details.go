package client

import (
	"fmt"
	"maps"
	"slices"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/authz/rar"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// DetailType is a type of authorization details (RFC 9396).
type DetailType struct {
	// The type as clients ask for it. Required.
	Type string `json:"type"`
	// What the consent page calls it, by languages such as nl; "" is for all others. Default: the type.
	Description map[string]string `json:"description,omitempty"`
	// What locations can have. Default: requests have no locations; so with the next three.
	Locations []string `json:"locations,omitempty"`
	// What actions can have.
	Actions []string `json:"actions,omitempty"`
	// What datatypes can have.
	DataTypes []string `json:"datatypes,omitempty"`
	// What privileges can have.
	Privileges []string `json:"privileges,omitempty"`
	// Whether requests can have an identifier. Default: false.
	Identifier bool `json:"identifier,omitempty"`
	// Further members. Default: none.
	Members []DetailMember `json:"members,omitempty"`
	// The members that every request has. Default: none.
	Required []string `json:"required,omitempty"`
	// The authentication level that the person must have reached, 1 to 4. Default: any.
	Level caddyfileutil.Count `json:"level,omitempty"`
	// Whether people are asked: on (asked once for the same and remembered) or always. Default: on.
	Consent string `json:"consent,omitempty"`
	// Whether clients that no operator has registered can ask for it. Default: false.
	Unregistered bool `json:"unregistered,omitempty"`
}

// DetailMember is a member of a DetailType.
type DetailMember struct {
	// Its name, with a point in front of a member of a member: amount.currency. Required.
	Name string `json:"name"`
	// What the consent page calls it, by languages; "" is for all others. Default: the name.
	Label map[string]string `json:"label,omitempty"`
	// What it is: text, number or boolean. It can be a list of these, too. Default: text.
	Kind string `json:"kind,omitempty"`
	// The values that it can have. Default: any.
	Values []string `json:"values,omitempty"`
}

var (
	checkDetailKind    = caddyfileutil.OneOf(rar.KindText, rar.KindNumber, rar.KindBoolean)
	checkDetailConsent = caddyfileutil.OneOf("on", "always")
)

// ReadDetailType reads one more type than the others:
//
//	authorization_details <type> {
//		description  [<language>] <text>
//		locations    <uri>...
//		actions      <action>...
//		datatypes    <name>...
//		privileges   <name>...
//		identifier
//		member <name> {
//			label  [<language>] <text>
//			kind   text|number|boolean
//			values <value>...
//		}
//		required     <member>...
//		level        <1 to 4>
//		consent      on|always
//		unregistered
//	}
func ReadDetailType(d *caddyfile.Dispenser, others []DetailType) (t DetailType, err error) {
	start := d.Token()
	if err := caddyfileutil.ReadName(d, &t.Type, rar.CheckName); err != nil {
		return t, err
	}
	if slices.ContainsFunc(others, func(o DetailType) bool { return o.Type == t.Type }) {
		return t, d.Errf("authorization_details %s is already defined: keep one of them", t.Type)
	}
	err = caddyfileutil.ReadBlock(d, "authorization_details "+t.Type, &reference.DetailType, caddyfileutil.Subdirectives{
		"description":  readTexts(&t.Description),
		"locations":    caddyfileutil.Values(&t.Locations, nil),
		"actions":      caddyfileutil.Values(&t.Actions, nil),
		"datatypes":    caddyfileutil.Values(&t.DataTypes, nil),
		"privileges":   caddyfileutil.Values(&t.Privileges, nil),
		"identifier":   caddyfileutil.Flag(&t.Identifier),
		"member":       t.readMember,
		"required":     caddyfileutil.Values(&t.Required, nil),
		"level":        caddyfileutil.Value(&t.Level, caddyfileutil.CheckLevel),
		"consent":      caddyfileutil.Value(&t.Consent, checkDetailConsent),
		"unregistered": caddyfileutil.Flag(&t.Unregistered),
	})
	if err != nil {
		return t, err
	}
	return t, caddyfileutil.Adapt(start, func(r *caddyfileutil.Resolver) { t.Build(r) })
}

func (t *DetailType) readMember(d *caddyfile.Dispenser) error {
	var m DetailMember
	if err := caddyfileutil.ReadName(d, &m.Name, rar.CheckPath); err != nil {
		return err
	}
	err := caddyfileutil.ReadBlock(d, "member "+m.Name, &reference.DetailMember, caddyfileutil.Subdirectives{
		"label":  readTexts(&m.Label),
		"kind":   caddyfileutil.Value(&m.Kind, checkDetailKind),
		"values": caddyfileutil.Values(&m.Values, nil),
	})
	t.Members = append(t.Members, m)
	return err
}

// readTexts reads a text for one language, or for all that have none.
func readTexts(dst *map[string]string) caddyfileutil.Subdirective {
	return func(d *caddyfile.Dispenser) error {
		word, args := d.Val(), d.RemainingArgs()
		language := ""
		switch {
		case len(args) == 2:
			language, args = args[0], args[1:]
			if err := web.CheckLocale(language); err != nil {
				return d.Errf("%s: %q %w", word, language, err)
			}
		case len(args) != 1:
			return d.Errf("%s: want a text in quotes, in front of it a language or nothing, as in: %s nl \"Een betaling starten\"", word, word)
		}
		if args[0] == "" {
			return d.Errf("%s: the text is empty", word)
		}
		if (*dst)[language] != "" {
			return d.Errf("%s is there twice for one language: keep one of them", word)
		}
		if *dst == nil {
			*dst = map[string]string{}
		}
		(*dst)[language] = args[0]
		return caddyfileutil.NoMore(d, word)
	}
}

// Build returns the type. It is validated as a whole, unless a value is wrong or not known yet.
func (t *DetailType) Build(r *caddyfileutil.Resolver) rar.Type {
	of, before := fmt.Sprintf("authorization_details %s: ", t.Type), r.ProblemCount()
	known := true
	list := func(name string, vs []string) []string {
		out := r.List(of+name, vs, nil)
		known = known && len(out) == len(vs)
		return out
	}
	texts := func(name string, of map[string]string) web.Texts {
		out := web.Texts{}
		for _, language := range slices.Sorted(maps.Keys(of)) {
			if language != "" && web.CheckLocale(language) != nil {
				r.Fail("%s: %q is not a language such as nl", name, language)
			}
			if text, ok := r.Text(name, of[language], nil); ok {
				out[language] = text
			}
		}
		return out
	}
	out := rar.Type{
		Name: r.Plain("authorization_details", t.Type, rar.CheckName), Description: texts(of+"description", t.Description),
		Locations: list("locations", t.Locations), Actions: list("actions", t.Actions), DataTypes: list("datatypes", t.DataTypes),
		Privileges: list("privileges", t.Privileges), Identifier: t.Identifier, Required: list("required", t.Required),
		Level: r.Count(of+"level", t.Level, caddyfileutil.CheckLevel), Always: r.Plain(of+"consent", t.Consent, checkDetailConsent) == "always",
		Open: t.Unregistered,
	}
	for _, m := range t.Members {
		at := "member " + m.Name + " "
		out.Members = append(out.Members, rar.Member{
			Path: m.Name, Label: texts(of+at+"label", m.Label), Kind: r.Plain(of+at+"kind", m.Kind, checkDetailKind),
			Of: list(at+"values", m.Values),
		})
	}
	if r.ProblemCount() == before && (known && !caddyfileutil.HasPlaceholder(t.Type) || !r.Adapting()) {
		r.AddError(out.Validate())
	}
	return out
}
