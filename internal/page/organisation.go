package page

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"html/template"
	"net/http"
	"net/url"
	"strings"

	"go.uber.org/zap"
)

// clientLogo is the height in pixels of the picture beside the name of an application.
const clientLogo = 40

// Organisation is whom an application belongs to.
type Organisation struct {
	Name string
	// SiteURL is its own site, SupportURL where people find help, SupportEmail where they ask for it where there is no such site. They are shown if
	// they are http or https URLs and an address.
	SiteURL, SupportURL, SupportEmail string
	// Logo is shown beside the name of its applications: PNG, JPEG or GIF. One that is none of these is not shown.
	Logo []byte
	// Message stands on the sign-in page of its applications: HTML, of which CleanHTML leaves what is harmless.
	Message string
	// Private says that nothing of it is shown to who is not signed in.
	Private bool
	// Language is that of the pages for its applications where nobody asks for one that there is: nl, nl_NL, nl_NL_informal. Empty: the default
	Language string
}

// organisation is what templates see of it.
type organisation struct {
	Name, SiteURL, SiteHost, help string
	logo                          *shown
	Message                       template.HTML
	private                       bool
	language                      string
}

// Organisations are those of the applications. They do not change.
type Organisations struct {
	byClient map[string]*organisation
	files    assets
}

// NewOrganisations returns them by the ids of applications.
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
		u, _ := url.Parse(in.SiteURL) // which IsLink has read
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
		out.logo = p.size(o.files.add("organisation"+hex.EncodeToString(sum[:6]), strings.TrimPrefix(p.kind, "image/"), p.kind, in.Logo), clientLogo)
	}
	return out
}

// SetOrganisations names who is asked, at each page for an application, whom it belongs to. It is called before the renderer is used, if at all.
func (p *Renderer) SetOrganisations(from func(context.Context) *Organisations) {
	p.organisations = from
}

// organisationsNow returns what SetOrganisations has named, and never nil.
func (p *Renderer) organisationsNow(ctx context.Context) (now *Organisations) {
	if p.organisations == nil {
		return &Organisations{}
	}
	defer func() {
		if v := recover(); v != nil { // as in asked
			p.cfg.Log.Error("organisations not read", zap.Any("panic", v))
		}
		if now == nil {
			now = &Organisations{}
		}
	}()
	return p.organisations(ctx)
}

// unowned is whom an application belongs to of which nobody knows.
var unowned = new(organisation)

// organisationOf returns whom a client belongs to, or unowned.
func (p *Renderer) organisationOf(r *http.Request, client string) *organisation {
	if client == "" {
		return unowned
	}
	return cmp.Or(p.organisationsNow(r.Context()).byClient[client], unowned)
}

// belong tells the page whom its client belongs to and how that looks.
func (p *Renderer) belong(f *frame, org *organisation, v View) {
	if f.Client.ID == "" {
		return
	}
	f.ClientLogo = p.assets.logos[f.Client.ID]
	if org == unowned || org.private && !v.signedIn() {
		return
	}
	f.Organisation = org
	f.Help = cmp.Or(org.help, f.Help)
	f.ClientLogo = cmp.Or(f.ClientLogo, org.logo)
}

// signedIn tells whether only who is signed in sees the page: what they allow, and their account.
func (v View) signedIn() bool { return v.Template == "consent" || v.Nav != nil }
