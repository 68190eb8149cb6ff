package providers

import (
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/logo"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// shownProvider is the provider that a screen is about.
type shownProvider struct {
	settings.LoginMethod
	health

	icon  *web.Logo // the stored one. nil: none
	below bool      // another stored provider comes before it on the sign-in page
}

func providerOf(v *layout.Visit) *shownProvider { return v.About.(*shownProvider) }

// providerScreen is the page of one way to sign in. Those of the Caddyfile are shown but cannot be changed.
func (s *setup) providerScreen() *layout.Screen {
	stored := func(v *layout.Visit) bool { return providerOf(v).Removable }
	return &layout.Screen{
		Name: "provider", Path: providersPath + "/{id}", Role: layout.Viewer, Find: s.findProvider, Show: s.showProvider,
		Acts: []*layout.Act{
			{Name: "test-provider", Role: layout.Operator, When: func(v *layout.Visit) bool {
				return providerOf(v).ID != settings.OwnMethod && (stored(v) || providerOf(v).Enabled)
			}, Do: s.testProvider},
			{Name: "edit-provider", Role: layout.Owner, When: editable, May: mayEditProvider, Ask: askEditProvider, Do: s.editProvider},
			{
				Name: "enable-provider", Role: layout.Owner, When: func(v *layout.Visit) bool { return stored(v) && !providerOf(v).Enabled },
				May: mayChangeProvider, Do: s.switchProvider(true),
			},
			{
				Name: "disable-provider", Role: layout.Owner, Danger: true,
				When: func(v *layout.Visit) bool { return stored(v) && providerOf(v).Enabled }, May: mayChangeProvider, Ask: askLinked,
				Do: s.switchProvider(false),
			},
			{
				Name: "raise-provider", Role: layout.Owner, When: func(v *layout.Visit) bool { return providerOf(v).below },
				May: mayChangeProvider, Do: s.raiseProvider,
			},
			{
				Name: "set-icon", Role: layout.Owner, Hidden: true, Upload: layout.MaxPictureUpload, When: stored, May: mayChangeProvider,
				Ask: layout.AskPicture, Do: layout.TakePicture(s.setIcon),
			},
			{
				Name: "remove-icon", Role: layout.Owner, Hidden: true, When: func(v *layout.Visit) bool { return providerOf(v).icon != nil },
				May: mayChangeProvider, Do: s.removeIcon,
			},
			{Name: "remove-provider", Role: layout.Owner, Danger: true, When: stored, May: mayChangeProvider, Ask: askLinked, Do: s.removeProvider},
		},
	}
}

// mayChangeProvider refuses changes to providers of the Caddyfile, and to Gatehouse's own method.
func mayChangeProvider(v *layout.Visit) error {
	if !providerOf(v).Removable {
		return layout.Denied("the provider is not one of the settings")
	}
	return nil
}

func (s *setup) findProvider(v *layout.Visit) error {
	return s.Store.View(v.Context(), func(tx storage.Tx) error {
		u, err := s.Config.Units(tx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(u.LoginMethods.LoginMethods, func(m settings.LoginMethod) bool { return m.ID == v.PathValue("id") })
		if i < 0 {
			return webflow.NotFound()
		}
		p := &shownProvider{LoginMethod: u.LoginMethods.LoginMethods[i], below: before(u.LoginMethods.LoginMethods, i) >= 0}
		if p.health, err = healthOf(tx, p.ID); err != nil {
			return err
		}
		if p.icon, err = logo.Find(tx, web.ProviderLogo, p.ID); err != nil {
			return err
		}
		p.linked, err = linked(tx, p.ID)
		v.About, v.Called = p, nameOf(&p.LoginMethod)
		return err
	})
}

func (s *setup) showProvider(v *layout.Visit) (*web.Console, error) {
	p := providerOf(v)
	m := &p.LoginMethod
	out := &web.Console{
		Name: v.Called, Up: &web.Up{Label: web.Say("console.providers.title"), URL: layout.Root + providersPath},
		Logo: s.iconOf(m, p.icon), Tags: []web.Cell{enabledCell(m.Enabled), originCell(m)},
	}
	facts := []web.ConsoleFact{
		{Label: "console.field.id", Cells: []web.Cell{{Name: m.ID, Code: true}}},
		{Label: "console.field.kind", Cells: []web.Cell{kindCell(m)}},
	}
	if isDeclared(m) {
		out.Lead = web.Say("console.provider.declared")
		if place := s.PlaceOf("idp " + m.ID); place != "" {
			facts = append(facts, web.ConsoleFact{Label: "console.field.origin", Cells: []web.Cell{{Name: place, Code: true}}})
		}
	}
	facts = append(facts, factsOf(m)...)
	facts = append(facts, s.addresses(m)...)
	if m.ID != settings.OwnMethod {
		facts = append(facts, web.ConsoleFact{Label: "console.field.linked", Cells: []web.Cell{linkedCell(p.linked)}})
	}
	facts = append(facts, layout.LinksFact(v, "console.field.provider_icon", "set-icon", "remove-icon")...)
	seen := []web.ConsoleFact{{Label: "console.column.worked", Cells: []web.Cell{when(p.worked.At)}}}
	failed := web.ConsoleFact{Label: "console.column.failed", Cells: []web.Cell{when(p.failed.At)}}
	failed.Cells[0].Hint = web.Said(p.failed.Reason)
	if p.failing() {
		failed.Cells = append(failed.Cells, web.Cell{Text: web.Say("console.provider.failing"), Kind: "warn"})
	}
	out.Actions = v.Buttons()
	out.Parts = []web.ConsolePart{
		{Facts: facts},
		{ID: "health", Title: web.Say("console.provider.health"), Facts: append(seen, failed)},
	}
	keys, ok, err := s.keysPart(v, p)
	if ok {
		out.Parts = append(out.Parts, keys)
	}
	return out, err
}

// factsOf returns the facts of a login method about the provider. Secrets are not among them.
func factsOf(m *settings.LoginMethod) (out []web.ConsoleFact) {
	add := func(label, value string) {
		if value != "" {
			out = append(out, web.ConsoleFact{Label: label, Cells: []web.Cell{{Name: value, Code: true}}})
		}
	}
	metadata := func(at string) {
		if strings.HasPrefix(at, "http") {
			add("console.field.metadata_url", at)
		} else if at != "" {
			out = append(out, web.ConsoleFact{Label: "console.field.metadata_url", Cells: []web.Cell{{Text: web.Say("console.provider.inline")}}})
		}
	}
	switch {
	case m.SAML != nil:
		metadata(m.SAML.IDPMetadata)
	case m.DigiD != nil:
		metadata(m.DigiD.IDPMetadata)
	case m.EIDAS != nil:
		metadata(m.EIDAS.IDPMetadata)
	case m.OIDC != nil:
		add("console.field.issuer", m.OIDC.Issuer)
		add("console.field.metadata_url", m.OIDC.DiscoveryURL)
		add("console.field.provider_client", m.OIDC.ClientID)
		add("console.field.key_pair", m.OIDC.SigningKeyID)
	case m.LDAP != nil:
		add("console.field.servers", m.LDAP.ServerURLs)
		add("console.field.base", m.LDAP.BaseSuffix)
	}
	return out
}

// addresses returns our addresses that the provider has to know.
func (s *setup) addresses(m *settings.LoginMethod) []web.ConsoleFact {
	fact := func(label, path string) web.ConsoleFact {
		name := label[strings.LastIndexByte(label, '.')+1:]
		return web.ConsoleFact{Label: label, Cells: []web.Cell{{Name: s.Issuer + path, Code: true, Copy: name}}}
	}
	id := url.PathEscape(m.ID)
	switch m.Type {
	case settings.TypeSAML, settings.TypeDigiD, settings.TypeEIDAS:
		return []web.ConsoleFact{fact("console.field.our_metadata", "/saml/"+id+"/metadata"), fact("console.field.our_acs", "/saml/"+id+"/acs")}
	case settings.TypePassword, settings.TypeHeader, settings.TypeLDAP, settings.TypeKerberos, settings.TypeQRCode:
		return nil
	}
	return []web.ConsoleFact{fact("console.field.our_redirect", "/oidc/"+id+"/callback")}
}

// testProvider tries the steps of a sign-in, and shows each of them.
func (s *setup) testProvider(v *layout.Visit, _ url.Values) (layout.Result, error) {
	p := providerOf(v)
	steps, err := idp.Steps(nil), error(nil)
	if p.Removable {
		steps, err = s.Providers.Try(v.Context(), p.LoginMethod)
	} else {
		steps = s.Providers.Test(v.Context(), p.ID)
	}
	if err != nil {
		steps.Fail("configuration", err, "")
	}
	out := &web.Console{Title: web.Say("console.steps.title"), Up: v.Up()}
	switch {
	case len(steps) == 0:
		out.Lead = web.Say("console.steps.nothing", "name", v.Called)
	case steps.Err() != nil:
		out.Problem = web.Say("console.steps.bad", "name", v.Called)
	default:
		out.Done = web.Say("console.steps.good", "name", v.Called)
	}
	if len(steps) > 0 {
		part := stepsPart(steps)
		part.ID, part.Title = "", web.Text{}
		out.Parts = []web.ConsolePart{part}
	}
	out.Actions = []web.Action{{Label: "console.steps.again", URL: v.Path() + "/test-provider"}}
	return layout.Result{Page: out}, nil
}

// askLinked asks with the number of people who will not be able to sign in by the provider any more.
func askLinked(v *layout.Visit) (layout.Question, error) {
	return layout.Question{Fill: []any{"n", linkedCell(providerOf(v).linked).Name}}, nil
}

// edit changes the login method that the screen is about, if it is still there.
func (s *setup) edit(v *layout.Visit, fn func(list []settings.LoginMethod, at int) []settings.LoginMethod) error {
	_, err := s.Config.Edit(write(v), v.Actor(), func(u *settings.Units) error {
		list := u.LoginMethods.LoginMethods
		at := slices.IndexFunc(list, func(m settings.LoginMethod) bool { return m.ID == providerOf(v).ID && m.Removable })
		if at < 0 {
			return &layout.Problem{Key: "console.problem.gone"}
		}
		u.LoginMethods.LoginMethods = fn(list, at)
		return nil
	})
	return refused("", err)
}

func (s *setup) switchProvider(on bool) func(*layout.Visit, url.Values) (layout.Result, error) {
	return func(v *layout.Visit, _ url.Values) (layout.Result, error) {
		out := layout.Switched(providerOf(v).Enabled, on, "enable-provider", "disable-provider")
		return out, s.edit(v, func(list []settings.LoginMethod, at int) []settings.LoginMethod {
			list[at].Enabled = on
			return list
		})
	}
}

// before returns the index of the stored provider that comes before the one at an index. Buttons on the sign-in page
// are in the order of the list. -1: it is the first, or not stored itself
func before(list []settings.LoginMethod, at int) int {
	if !list[at].Removable {
		return -1
	}
	for i := at - 1; i >= 0; i-- {
		if list[i].Removable {
			return i
		}
	}
	return -1
}

// raiseProvider moves a provider up by one place on the sign-in page.
func (s *setup) raiseProvider(v *layout.Visit, _ url.Values) (layout.Result, error) {
	return layout.Result{}, s.edit(v, func(list []settings.LoginMethod, at int) []settings.LoginMethod {
		if other := before(list, at); other >= 0 {
			list[other], list[at] = list[at], list[other]
		}
		return list
	})
}

func (s *setup) removeProvider(v *layout.Visit, _ url.Values) (layout.Result, error) {
	return layout.Result{To: layout.Root + providersPath},
		s.edit(v, func(list []settings.LoginMethod, at int) []settings.LoginMethod { return slices.Delete(list, at, at+1) })
}
