package settings

import (
	"bytes"
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/gatehouse-id/gatehouse/internal/coded"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// settleLoginMethods restores members that cannot be changed, and secrets that were not given again.
func (s *Service) settleLoginMethods(from, to *Units) (sentMethods, error) {
	list := to.LoginMethods.LoginMethods
	var ids []string
	for i := range list {
		m := &list[i]
		at := "login_methods.login_methods[" + strconv.Itoa(i) + "]"
		if f := s.fixed(m.ID); f != nil {
			if !sameMethod(*m, *f) {
				return nil, refusal(at, coded.New("declared", "is declared in the Caddyfile and cannot be changed here"))
			}
			ids = append(ids, m.ID)
			continue
		}
		m.Removable = m.ID != OwnMethod
		if m.ID == "" {
			id, err := s.newID()
			if err != nil {
				return nil, err
			}
			m.ID = id
		}
		ids = append(ids, m.ID)
		if m.ID == OwnMethod && m.AuthenticationLevel == 0 {
			m.AuthenticationLevel = 1
		}
		old := from.method(m.ID)
		if old == nil {
			old = &LoginMethod{}
		}
		if err := s.settleMappings(old, m); err != nil {
			return nil, err
		}
		if err := m.keepSecrets(old, at); err != nil {
			return nil, err
		}
	}
	list = slices.DeleteFunc(list, func(m LoginMethod) bool { return s.fixed(m.ID) != nil })
	if !slices.ContainsFunc(list, func(m LoginMethod) bool { return m.ID == OwnMethod }) {
		list = slices.Insert(list, 0, *from.method(OwnMethod)) // it cannot be removed
	}
	to.LoginMethods.LoginMethods = append(list, s.cfg.Fixed...)
	return placesOf(ids, to.LoginMethods.LoginMethods), nil
}

// keepSecrets takes each empty secret from old. A secret that would be sent to another address must be given again:
// otherwise an administrator, who can write secrets only, could read them at an address of their own.
func (m *LoginMethod) keepSecrets(old *LoginMethod, at string) error {
	known := map[string]jsonapi.Secret{}
	for name, s := range old.secrets() {
		known[name] = *s
	}
	moved := !slices.Equal(old.sendsTo(), m.sendsTo())
	for name, s := range m.secrets() {
		if *s != "" || known[name] == "" {
			continue
		}
		if moved {
			return invalid(at+"."+name, coded.New("secret_again", "must be given again, since it would be sent to another address than before"))
		}
		*s = known[name]
	}
	return nil
}

// sendsTo returns the members that say where the secrets of a method are sent.
func (m *LoginMethod) sendsTo() []string {
	switch {
	case m.OIDC != nil:
		return []string{m.OIDC.DiscoveryURL, m.OIDC.Issuer, m.OIDC.IDTokenURL, strconv.FormatBool(m.OIDC.ManualMetadataSetup)}
	case m.LDAP != nil:
		return []string{m.LDAP.ServerURLs}
	}
	return nil
}

// sameMethod compares two methods as they are on the wire, where null and an absent member are the same.
func sameMethod(a, b LoginMethod) bool {
	u := Units{LoginMethods: LoginMethods{LoginMethods: []LoginMethod{a, b}}}
	v := u.clone()
	v.complete()
	list := v.LoginMethods.LoginMethods
	return bytes.Equal(encode(list[0]), encode(list[1]))
}

// revealed returns the names and values of the secrets, which are not on the wire.
func (m *LoginMethod) revealed() (out []string) {
	for name, s := range m.secrets() {
		out = append(out, name, s.Reveal())
	}
	return out
}

// settleTwins gives one setting with two names one value: that of the name that was changed. Either is enough
// where the defaults have one of them on. (docs/decisions/configuration.md#configuration-units)
func settleTwins(from, to *Units) {
	a, b := &to.Features.ExternallyDeliveredCodeStepUp.Enabled, &to.Features.StepUpExternallyDeliveredCodeEnabled
	before, beforeB := from.Features.ExternallyDeliveredCodeStepUp.Enabled, from.Features.StepUpExternallyDeliveredCodeEnabled
	on := *a || *b
	switch {
	case *a != before: // also where both are changed
		on = *a
	case *b != beforeB:
		on = *b
	}
	*a, *b = on, on
}

// method returns the login method of an id, or nil.
func (u *Units) method(id string) *LoginMethod {
	i := slices.IndexFunc(u.LoginMethods.LoginMethods, func(m LoginMethod) bool { return m.ID == id })
	if i < 0 {
		return nil
	}
	return &u.LoginMethods.LoginMethods[i]
}

// Registration returns what a login method asks of new people: whether they choose a username and a password, and the
// additional fields. An unknown or disabled method asks for nothing.
func (u *Units) Registration(id string) (named bool, fields []CustomAttributeField) {
	if m := u.method(id); m != nil && m.Enabled {
		return m.ForceCreatingUsernameAndPasswordDuringSignUp, m.CustomAttributeFields
	}
	return false, nil
}

// withoutFixed removes the methods of the Caddyfile, which are not stored.
func (s *Service) withoutFixed(u *Units) {
	list := slices.Clone(u.LoginMethods.LoginMethods)
	u.LoginMethods.LoginMethods = slices.DeleteFunc(list, func(m LoginMethod) bool { return s.fixed(m.ID) != nil })
}

// settleMappings gives ids to entries without one: the stored id of an equal entry, otherwise a new one.
func (s *Service) settleMappings(old, m *LoginMethod) (err error) {
	give := func(id *string, known func() string) {
		if *id == "" && err == nil {
			if *id = known(); *id == "" {
				*id, err = s.newID()
			}
		}
	}
	for i := range m.AttributeMappings {
		a := &m.AttributeMappings[i]
		give(&a.ID, func() string {
			for _, o := range old.AttributeMappings {
				if o.MapFrom == a.MapFrom && o.MapTo == a.MapTo {
					return o.ID
				}
			}
			return ""
		})
	}
	for i := range m.CustomAttributeMappings {
		a := &m.CustomAttributeMappings[i]
		give(&a.ID, func() string {
			for _, o := range old.CustomAttributeMappings {
				if o.AttributeToMapFrom == a.AttributeToMapFrom && o.AttributeToMapTo == a.AttributeToMapTo {
					return o.ID
				}
			}
			return ""
		})
	}
	for i := range m.CustomAttributeFields {
		a := &m.CustomAttributeFields[i]
		give(&a.ID, func() string {
			for _, o := range old.CustomAttributeFields {
				if o.Name == a.Name && o.Type == a.Type {
					return o.ID
				}
			}
			return ""
		})
	}
	return err
}

// settleIDs gives ids to entries without one. Gatehouse chooses those of whitelisted URLs, so a given one must exist
// already.
func (s *Service) settleIDs(from, to *Units, keep bool) error {
	err := s.settleWhitelist(from.Redirects.URLWhitelist, to.Redirects.URLWhitelist, "redirects.url_whitelist", keep)
	if err != nil {
		return err
	}
	err = s.settleWhitelist(from.Features.ActionToken.WhitelistedURLs, to.Features.ActionToken.WhitelistedURLs,
		"features.action_token.whitelisted_urls", keep)
	if err != nil {
		return err
	}
	for i := range to.Organisations {
		o := &to.Organisations[i]
		if o.ID == "" {
			if o.ID, err = s.newID(); err != nil {
				return err
			}
		}
		o.MigrationMessageHTML = web.CleanHTML(o.MigrationMessageHTML)
		for key, sp := range o.ServiceProviders {
			if sp.ID == "" {
				sp.ID = key
				o.ServiceProviders[key] = sp
			}
		}
	}
	return nil
}

func (s *Service) settleWhitelist(from, to []WhitelistedURL, path string, keep bool) error {
	for i := range to {
		w := &to[i]
		if w.ID != "" {
			if keep && len(w.ID) == 36 && uuid.Validate(w.ID) == nil {
				continue
			}
			if !slices.ContainsFunc(from, func(o WhitelistedURL) bool { return o.ID == w.ID }) {
				return invalid(path+"["+strconv.Itoa(i)+"].id", coded.New("no_entry", "there is no such entry; leave the id out for a new one"))
			}
			continue
		}
		if j := slices.IndexFunc(from, func(o WhitelistedURL) bool { return o.URL == w.URL }); j >= 0 {
			w.ID = from[j].ID
			continue
		}
		id, err := s.newID()
		if err != nil {
			return err
		}
		w.ID = id
	}
	return nil
}

// verifyMethods checks that a provider can be made of each enabled method. A method that is stored already is not
// checked again: metadata that has expired since must not block other changes.
func (s *Service) verifyMethods(from, to *Units) error {
	for i := range to.LoginMethods.LoginMethods {
		m := &to.LoginMethods.LoginMethods[i]
		if old := from.method(m.ID); !m.Removable || !m.Enabled || old != nil && sameMethod(*m, *old) &&
			slices.Equal(m.revealed(), old.revealed()) {
			continue
		}
		at := "login_methods.login_methods[" + strconv.Itoa(i) + "]"
		err := ErrTypeNotSupported
		if s.cfg.Verify != nil {
			err = s.cfg.Verify(*m)
		}
		if errors.Is(err, ErrTypeNotSupported) {
			return refusal(at+".type", cmp.Or(neverTypes[m.Type],
				coded.Errorf("no_such_type", "type", "methods of type %s do not exist yet; it can be stored with enabled false", m.Type)))
		}
		if wrong := MethodError(nil); errors.As(err, &wrong) {
			return jsonapi.Invalid(wrong.below(at)...)
		}
		if err != nil {
			return invalid(at, err)
		}
	}
	return nil
}

// verifyServiceProviders checks the metadata of service providers, unless they are stored already: what has expired
// since must not block other changes.
func (s *Service) verifyServiceProviders(from, to *Units) error {
	if s.cfg.VerifyMetadata == nil {
		return nil
	}
	stored := map[string]bool{}
	for i := range from.Organisations {
		for _, sp := range from.Organisations[i].ServiceProviders {
			stored[sp.SAMLMetadata] = true
		}
	}
	for i := range to.Organisations {
		for _, id := range slices.Sorted(maps.Keys(to.Organisations[i].ServiceProviders)) {
			metadata := to.Organisations[i].ServiceProviders[id].SAMLMetadata
			if metadata == "" || stored[metadata] {
				continue
			}
			if err := s.cfg.VerifyMetadata(metadata); err != nil {
				at := "organisations[" + strconv.Itoa(i) + "].service_providers." + shown(id) + ".saml_metadata"
				return invalid(at, coded.Errorf("metadata_unusable", "reason", "cannot be used: %s", err))
			}
		}
	}
	return nil
}
