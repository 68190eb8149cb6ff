package web

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.uber.org/zap"
)

// logoHeight is the height in pixels of the picture next to a name.
const logoHeight = 40

// Organisation is the owner of an application.
type Organisation struct {
	Name string
	// SiteURL is its own site, SupportURL its help pages, SupportEmail its address for help if there are no such pages.
	// They are shown only if they are http or https URLs and an address.
	SiteURL, SupportURL, SupportEmail string
	// Logo is shown next to the names of its applications: PNG, JPEG or GIF. Any other file is not shown.
	Logo []byte
	// Message appears on the sign-in page of its applications: HTML, reduced to its harmless parts by CleanHTML.
	Message string
	// Private hides everything about it from people who are not signed in.
	Private bool
	// Language is the default for pages of its applications if no available language was requested: nl, nl_NL,
	// nl_NL_informal. Empty: the general default
	Language string
}

// organisation is the form of it that templates see.
type organisation struct {
	Name, SiteURL, SiteHost, help string
	logo                          *Image
	Message                       template.HTML
	private                       bool
	language                      string
}

// Organisations holds the organisations of all applications. It does not change.
type Organisations struct {
	byClient map[string]*organisation
	files    assets
}

// NewOrganisations returns Organisations for a map from the ids of applications.
func NewOrganisations(byClient map[string]*Organisation) *Organisations {
	o := &Organisations{byClient: map[string]*organisation{}, files: assets{files: map[string]file{}}}
	made := map[*Organisation]*organisation{}
	for client, org := range byClient {
		if made[org] == nil {
			made[org] = o.add(org)
		}
		o.byClient[client] = made[org]
	}
	return o
}

func (o *Organisations) add(in *Organisation) *organisation {
	out := &organisation{Name: in.Name, private: in.Private, language: in.Language}
	out.Message = template.HTML(CleanHTML(in.Message)) //nolint:gosec // G203: cleaned in this very line
	if isWeb(in.SiteURL) {
		u, _ := url.Parse(in.SiteURL) // IsLink has parsed it before
		out.SiteURL, out.SiteHost = in.SiteURL, u.Hostname()
	}
	switch mail := "mailto:" + in.SupportEmail; {
	case in.SupportURL != "" && IsLink(in.SupportURL):
		out.help = in.SupportURL
	case in.SupportEmail != "" && IsLink(mail):
		out.help = mail
	}
	if p, err := checkPicture(in.Logo); err == nil {
		sum := sha256.Sum256(in.Logo)
		out.logo = p.size(o.files.add("organisation"+hex.EncodeToString(sum[:6]), strings.TrimPrefix(p.kind, "image/"), p.kind, in.Logo),
			logoHeight)
	}
	return out
}

// SetOrganisations sets the function that returns the organisations; it is called for each page of an application. Call
// SetOrganisations before the renderer is used, if at all.
func (p *Renderer) SetOrganisations(from func(context.Context) *Organisations) {
	p.organisations = from
}

// organisationsNow returns the current organisations, and never nil.
func (p *Renderer) organisationsNow(ctx context.Context) (now *Organisations) {
	if p.organisations == nil {
		return &Organisations{}
	}
	defer func() {
		if v := recover(); v != nil { // as in customMessages
			p.cfg.Log.Error("organisations not read", zap.Any("panic", v))
		}
		if now == nil {
			now = &Organisations{}
		}
	}()
	return p.organisations(ctx)
}

// noOrganisation stands for the unknown owner of an application.
var noOrganisation = new(organisation)

// organisationOf returns the owner of a client, or noOrganisation.
func (p *Renderer) organisationOf(r *http.Request, client string) *organisation {
	if client == "" {
		return noOrganisation
	}
	return cmp.Or(p.organisationsNow(r.Context()).byClient[client], noOrganisation)
}

// setOrganisation adds the client's organisation and its look to the page.
func (p *Renderer) setOrganisation(ctx context.Context, f *frame, org *organisation, v View) {
	if f.Client.ID == "" {
		return
	}
	f.ClientLogo = p.ClientLogo(ctx, f.Client.ID)
	if org == noOrganisation || org.private && !v.signedIn() {
		return
	}
	f.Organisation = org
	f.Help = cmp.Or(org.help, f.Help)
	f.ClientLogo = cmp.Or(f.ClientLogo, org.logo)
}

// Initials are up to two letters of the client's name, for a client without a logo.
func (f *frame) Initials() (out string) {
	words := strings.FieldsFunc(f.Client.Name, func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsNumber(c) })
	if len(words) > 2 {
		words = words[len(words)-2:] // "The corner shop": CS
	}
	for _, w := range words {
		first, _ := utf8.DecodeRuneInString(w)
		out += string(unicode.ToUpper(first))
	}
	return out
}

// signedIn reports whether the page is only for people who are signed in: their consent, and their account.
func (v View) signedIn() bool { return v.Template == "consent" || v.Nav != nil }
