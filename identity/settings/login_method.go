package settings

import (
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/settings/wire"
	"github.com/gatehouse-id/gatehouse/internal/coded"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
)

// own is Gatehouse's own method. It can be disabled and renamed.
func own() LoginMethod {
	return LoginMethod{ID: OwnMethod, Name: "Username and password", Type: TypePassword, Enabled: true, AuthenticationLevel: 1}
}

// addFixed puts Gatehouse's own method first unless it is stored, and the methods of the Caddyfile after the stored
// ones.
func (s *Service) addFixed(u *Units) {
	list := slices.DeleteFunc(u.LoginMethods.LoginMethods, func(m LoginMethod) bool { return s.fixed(m.ID) != nil })
	if !slices.ContainsFunc(list, func(m LoginMethod) bool { return m.ID == OwnMethod }) {
		list = slices.Insert(list, 0, own())
	}
	u.LoginMethods.LoginMethods = append(list, s.cfg.Fixed...)
}

// fixed returns the method of the Caddyfile that has this id, or nil.
func (s *Service) fixed(id string) *LoginMethod {
	i := slices.IndexFunc(s.cfg.Fixed, func(m LoginMethod) bool { return m.ID == id })
	if i < 0 {
		return nil
	}
	return &s.cfg.Fixed[i]
}

// attributeObjects are the members of a login method that belong to one type each.
var attributeObjects = map[string]string{
	"eidas_attributes": TypeEIDAS, "kerberos_attributes": TypeKerberos, "ladp_attributes": TypeLDAP, "open_id_connect_attributes": TypeOIDC,
	"qr_code_attributes": TypeQRCode, "saml_attributes": TypeSAML, "azure_ad_b2c_attributes": TypeAzureADB2C, "idin_attributes": TypeIDIN,
	"digid_attributes": TypeDigiD, "itsme_attributes": TypeItsme, "apple_attributes": TypeApple, "facebook_attributes": TypeFacebook,
	"google_attributes": TypeGoogle, "linkedin_attributes": TypeLinkedIn, "twitter_attributes": TypeTwitter,
	"instagram_attributes": TypeInstagram, "microsoft_attributes": TypeMicrosoft,
	"github_attributes": TypeGitHub, "discord_attributes": TypeDiscord,
}

// WithAttributes returns a copy of the method that has the attribute object of its type.
func (m *LoginMethod) WithAttributes() *LoginMethod {
	out := *m
	v := reflect.ValueOf(&out).Elem()
	for f := range wire.Fields(v.Type()) {
		if attributeObjects[f.Name] == m.Type && v.Field(f.Index).Kind() == reflect.Pointer && v.Field(f.Index).IsNil() {
			v.Field(f.Index).Set(reflect.New(f.Type.Elem()))
		}
	}
	return &out
}

func checkLoginMethods(u *Units, c *checker) {
	ids := map[string]bool{}
	for i := range u.LoginMethods.LoginMethods {
		m := &u.LoginMethods.LoginMethods[i]
		at := "login_methods.login_methods[" + strconv.Itoa(i) + "]"
		if ids[m.ID] {
			c.add(at+".id", coded.New("twice", "is there twice"))
		}
		ids[m.ID] = true
		if (m.ID == OwnMethod) != (m.Type == TypePassword) {
			c.add(at+".type", coded.Errorf("own_type", "- method", "must be %s for the method %s and no other", TypePassword, OwnMethod))
		}
		if m.ID == OwnMethod && m.AuthenticationLevel != 1 {
			c.add(at+".authentication_level", coded.New("password_level", "must be 1: that is what a password is worth"))
		}
		if m.ID == OwnMethod {
			m.checkOwn(at, c)
		}
		if (m.Type == TypePassword || m.Type == TypeQRCode) && m.IdentityAssuranceLevel != 0 {
			c.add(at+".identity_assurance_level", coded.New("assurance", "must be 0: such a method says nothing about who someone is"))
		}
		for j, a := range m.CustomAttributeMappings {
			if a.AttributeToMapFrom == "" || a.AttributeToMapTo == "" {
				c.add(at+".custom_attribute_mappings["+strconv.Itoa(j)+"]", coded.New("both", "must name both attributes"))
			}
		}
		if m.Type == TypeHeader && m.Removable {
			c.add(at+".type", coded.New("caddyfile_only", "is for providers of the Caddyfile only"))
		}
		v := reflect.ValueOf(m).Elem()
		for j := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(j).Tag.Get("json"), ",")
			if of, ok := attributeObjects[name]; ok && of != m.Type && !v.Field(j).IsNil() {
				c.add(at+"."+name, coded.Errorf("other_type", "type", "belongs to the type %s", of))
			}
		}
		m.checkFields(at, c)
		if m.Removable && m.Enabled {
			m.checkEnabled(at, c)
		}
	}
}

// checkOwn refuses what means nothing where no provider vouches for people.
func (m *LoginMethod) checkOwn(at string, c *checker) {
	none := coded.New("own_no_attributes", "must be empty: this method has no attributes of a provider")
	for _, member := range []struct {
		name    string
		given   bool
		problem error
	}{
		{"auto_email_verification", m.AutoEmailVerification, coded.New("own_addresses", "must be false: with this method no provider vouches for addresses")},
		{"synchronise_attributes", m.SynchroniseAttributes, coded.New("own_no_provider", "must be false: this method has no provider to synchronise with")},
		{"migration_during_sign_up", m.MigrationDuringSignUp, coded.New("own_migration", "must be false: the login method of the old system brings people here")},
		{
			"force_creating_username_and_password_during_sign_up", m.ForceCreatingUsernameAndPasswordDuringSignUp,
			coded.New("own_both", "must be false: a sign-up by this method always asks for both"),
		},
		{"attribute_mappings", len(m.AttributeMappings) > 0, none},
		{"custom_attribute_mappings", len(m.CustomAttributeMappings) > 0, none},
		{"excluded_unmapped_attributes", len(m.ExcludedUnmappedAttributes) > 0, none},
	} {
		if member.given {
			c.add(at+"."+member.name, member.problem)
		}
	}
}

// OwnName returns the name that the operator has given to the method of usernames and passwords, or "".
func (u *Units) OwnName() string {
	if m := u.method(OwnMethod); m != nil && m.Name != own().Name {
		return m.Name
	}
	return ""
}

// ActivatesByPassword reports whether the first right password activates a person who has to be activated.
func (u *Units) ActivatesByPassword() bool {
	m := u.method(OwnMethod)
	return m != nil && m.AutoActivationEnabled
}

// checkFields demands a unique id and a name of each field: it is stored by the one and shown by the other.
func (m *LoginMethod) checkFields(at string, c *checker) {
	ids := map[string]bool{}
	for i, f := range m.CustomAttributeFields {
		at := at + ".custom_attribute_fields[" + strconv.Itoa(i) + "]"
		if ids[f.ID] {
			c.add(at+".id", coded.New("twice", "is there twice"))
		}
		ids[f.ID] = true
		if f.Name == "" {
			c.add(at+".name", coded.New("required", "is required"))
		}
	}
}

// checkEnabled demands the members without which a method cannot work.
func (m *LoginMethod) checkEnabled(at string, c *checker) {
	need := func(member, value string) {
		if value == "" {
			c.add(at+"."+member, coded.Errorf("required_type", "", "is required for an enabled method of type %s", m.Type))
		}
	}
	switch m.Type {
	case TypeSAML:
		a := m.SAML
		if a == nil {
			a = &SAMLAttributes{}
		}
		need("saml_attributes.idp_metadata", a.IDPMetadata)
	case TypeDigiD:
		a := m.DigiD
		if a == nil {
			a = &DigiDAttributes{}
		}
		need("digid_attributes.idp_metadata", a.IDPMetadata)
		need("digid_attributes.required_authentication_level", a.RequiredAuthenticationLevel)
		need("saml_mutual_ssl_tls_attributes.client_key_pair_id", m.SAMLMutualTLS.ClientKeyPairID)
	case TypeEIDAS:
		a := m.EIDAS
		if a == nil {
			a = &EIDASAttributes{}
		}
		need("eidas_attributes.idp_metadata", a.IDPMetadata)
		need("eidas_attributes.required_level_of_assurance", a.RequiredLevelOfAssurance)
		if a.AuthenticationService == "CUSTOM" {
			need("eidas_attributes.authentication_service_custom_value", a.AuthenticationServiceCustomValue)
		}
	case TypeLDAP:
		a := m.LDAP
		if a == nil {
			a = &LDAPAttributes{}
		}
		need("ladp_attributes.server_urls", a.ServerURLs)
		if a.IPRangeEnabled && len(a.IPRanges) == 0 {
			c.add(at+".ladp_attributes.ip_ranges", coded.New("ranges", "is required with ip_range_enabled"))
		}
	case TypeQRCode:
		if a := m.QRCode; a != nil && a.DeepLinkingEnabled {
			need("qr_code_attributes.deep_linking_redirect_url", a.DeepLinkingRedirectURL)
		}
	case TypeFacebook, TypeGoogle, TypeLinkedIn, TypeMicrosoft, TypeTwitter, TypeGitHub, TypeDiscord:
		name := strings.ToLower(m.Type) + "_attributes."
		a := map[string]*SocialAttributes{
			TypeFacebook: m.Facebook, TypeGoogle: m.Google, TypeLinkedIn: m.LinkedIn, TypeMicrosoft: m.Microsoft,
			TypeTwitter: m.Twitter, TypeGitHub: m.GitHub, TypeDiscord: m.Discord,
		}[m.Type]
		if a == nil {
			a = &SocialAttributes{}
		}
		need(name+"clientId", a.ClientID)
		need(name+"client_secret", a.ClientSecret.Reveal())
	case TypeAzureADB2C:
		a := m.AzureADB2C
		if a == nil {
			a = &AzureADB2CAttributes{}
		}
		need("azure_ad_b2c_attributes.tenant_id", a.TenantID)
		need("azure_ad_b2c_attributes.application_id", a.ApplicationID)
		need("azure_ad_b2c_attributes.policy", a.Policy)
	case TypeApple:
		a := m.Apple
		if a == nil {
			a = &AppleAttributes{}
		}
		need("apple_attributes.client_id", a.ClientID)
		need("apple_attributes.team_id", a.TeamID)
		need("apple_attributes.key_id", a.KeyID)
		need("apple_attributes.signing_key_id", a.SigningKeyID)
	case TypeItsme:
		a := m.Itsme
		if a == nil {
			a = &ItsmeAttributes{}
		}
		need("itsme_attributes.client_id", a.ClientID)
		need("itsme_attributes.login_service_code", a.LoginServiceCode)
	case TypeOIDC:
		a := m.OIDC
		if a == nil {
			a = &OIDCAttributes{}
		}
		need("open_id_connect_attributes.client_id", a.ClientID)
		if !a.ManualMetadataSetup {
			if a.Issuer == "" {
				need("open_id_connect_attributes.discovery_url", a.DiscoveryURL)
			}
			return
		}
		need("open_id_connect_attributes.issuer", a.Issuer)
		need("open_id_connect_attributes.authorization_url", a.AuthorizationURL)
		need("open_id_connect_attributes.id_token_url", a.IDTokenURL)
		need("open_id_connect_attributes.jwks_url", a.JWKSURL)
	}
}

// secrets yields every secret of the units by its place.
func (u *Units) secrets() iter.Seq2[string, *jsonapi.Secret] {
	return func(yield func(string, *jsonapi.Secret) bool) {
		for i := range u.LoginMethods.LoginMethods {
			m := &u.LoginMethods.LoginMethods[i]
			for name, s := range m.secrets() {
				if !yield(m.ID+"/"+name, s) {
					return
				}
			}
		}
	}
}

// secrets yields the secrets of a method by the names of their members.
func (m *LoginMethod) secrets() iter.Seq2[string, *jsonapi.Secret] {
	return func(yield func(string, *jsonapi.Secret) bool) {
		if m.LDAP != nil && !yield("ladp_attributes.password", &m.LDAP.Password) {
			return
		}
		if m.AzureADB2C != nil && !yield("azure_ad_b2c_attributes.client_secret", &m.AzureADB2C.ClientSecret) {
			return
		}
		if m.OIDC != nil && !yield("open_id_connect_attributes.client_secret", &m.OIDC.ClientSecret) {
			return
		}
		for _, social := range []struct {
			name string
			of   *SocialAttributes
		}{
			{"facebook", m.Facebook},
			{"google", m.Google},
			{"linkedin", m.LinkedIn},
			{"twitter", m.Twitter},
			{"instagram", m.Instagram},
			{"microsoft", m.Microsoft},
			{"github", m.GitHub},
			{"discord", m.Discord},
		} {
			if social.of != nil && !yield(social.name+"_attributes.client_secret", &social.of.ClientSecret) {
				return
			}
		}
	}
}

// sealPurpose binds a sealed secret to its place.
func sealPurpose(key string) string { return "config_unit login_methods " + key }

// unseal fills in the secrets. A secret whose login method is gone is ignored. One that no key opens is lost, and the
// rest of the configuration stays usable.
func (s *Service) unseal(u *Units, sealed map[string][]byte) {
	if len(sealed) == 0 {
		return
	}
	for key, into := range u.secrets() {
		raw, ok := sealed[key]
		if !ok {
			continue
		}
		plain, err := s.keyring.Open(sealPurpose(key), raw)
		if err != nil {
			s.log.Error("secret of a login method cannot be opened: set it again", zap.String("secret", key), zap.Error(err))
			continue
		}
		*into = jsonapi.Secret(plain)
	}
}

// seal returns the secrets as they are stored.
func (s *Service) seal(u *Units) (map[string][]byte, error) {
	out := map[string][]byte{}
	for key, plain := range u.secrets() {
		if *plain == "" {
			continue
		}
		sealed, err := s.keyring.Seal(sealPurpose(key), []byte(*plain))
		if err != nil {
			return nil, err
		}
		out[key] = sealed
	}
	return out, nil
}

// PasswordLogin reports whether people can sign in with a password.
func (u *Units) PasswordLogin() bool {
	m := u.method(OwnMethod)
	return m == nil || m.Enabled
}
