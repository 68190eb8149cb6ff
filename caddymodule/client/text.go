package client

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
)

// Caddyfile returns the block of the Caddyfile that reads as this client, indented by one tab. Secrets and hashes are
// written as they are: a caller that shows the text puts placeholders there.
func (c *Client) Caddyfile() string { return c.write(1, func(word string) string { return word }) }

// Source returns the block of the Caddyfile for a stored client: the options that differ from the defaults, and a
// placeholder for the secret, of which only a hash is kept. No text of the client is read as a placeholder.
func Source(stored *client.Client) string {
	usual := (&client.Client{ID: stored.ID, Public: stored.Public, FAPI2: stored.FAPI2, Scopes: stored.Scopes}).WithDefaults()
	c, d := Of(stored, nil), Of(usual, nil)
	omitUsual(reflect.ValueOf(&c).Elem(), reflect.ValueOf(&d).Elem())
	c.ID, c.Public, c.FAPI2, c.Scopes = stored.ID, stored.Public, stored.FAPI2, stored.Scopes
	placeholder := "{env." + SecretName(stored.ID) + "}"
	if !stored.Public && slices.Contains([]string{"", "post", "basic"}, stored.AuthMethod) {
		c.Secrets = []caddyfileutil.Sensitive{caddyfileutil.Sensitive(placeholder)}
	}
	return c.write(0, func(word string) string {
		if word == placeholder {
			return word
		}
		return strings.ReplaceAll(strings.ReplaceAll(word, "{", `\{`), `\{$`, `\{ $`) // {$X} is replaced before anything is read
	})
}

// omitUsual empties the members that have their usual values.
func omitUsual(v, usual reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case !f.CanSet():
		case f.Kind() == reflect.Struct:
			omitUsual(f, usual.Field(i))
		case reflect.DeepEqual(f.Interface(), usual.Field(i).Interface()):
			f.SetZero()
		}
	}
}

var notOfNames = regexp.MustCompile(`[^A-Z0-9]+`)

// SecretName returns the environment variable from which a printed client reads its secret.
func SecretName(id string) string {
	return strings.Trim(notOfNames.ReplaceAllString(strings.ToUpper(id), "_"), "_") + "_SECRET"
}

func (c *Client) write(depth int, literal func(word string) string) string {
	b := &block{depth: depth, literal: literal}
	b.open("client", c.ID)
	b.value("name", c.Name)
	b.flag("public", c.Public)
	b.flag("native", c.Native)
	b.each("secret", texts(c.Secrets))
	b.each("secret_hash", texts(c.SecretHashes))
	if c.CertificateSubject != nil {
		c.CertificateSubject.write(b, c.AuthMethod)
	} else {
		b.value("auth_method", c.AuthMethod)
	}
	b.value("jwks", c.JWKS)
	b.values("redirect_uris", c.RedirectURIs)
	b.values("post_logout_redirect_uris", c.PostLogoutRedirectURIs)
	b.value("backchannel_logout_uri", c.BackchannelLogoutURI)
	b.value("frontchannel_logout_uri", c.FrontchannelLogoutURI)
	b.value("initiate_login_uri", c.InitiateLoginURI)
	b.values("grants", c.Grants)
	b.values("scopes", c.Scopes)
	b.values("default_scopes", c.DefaultScopes)
	b.values("idps", c.IDPs)
	b.values("groups", c.Groups)
	b.value("consent", c.Consent)
	for _, must := range []struct {
		option string
		on     bool
	}{
		{"pkce", c.PKCERequired},
		{"par", c.PARRequired},
		{"request_object", c.SignedRequestRequired},
		{"dpop", c.DPoPRequired},
		{"mtls", c.MTLSRequired},
	} {
		if must.on {
			b.line(must.option, "required")
		}
	}
	b.value("request_object_alg", c.RequestAlg)
	b.flag("fapi2", c.FAPI2)
	b.flag("password_only", c.PasswordOnly)
	b.value("second_factor", c.SecondFactor)
	b.value("id_token_alg", c.IDTokenAlg)
	b.value("token_alg", c.TokenAlg)
	if c.IDTokenClaims {
		b.line("id_token_claims", "on")
	}
	b.value("authorization_response_alg", c.ResponseAlg)
	b.values("id_token_encryption", given(c.IDTokenEncAlg, c.IDTokenEnc))
	b.value("userinfo_alg", c.UserinfoAlg)
	b.values("userinfo_encryption", given(c.UserinfoEncAlg, c.UserinfoEnc))
	b.value("token_format", c.TokenFormat)
	b.value("subject_type", c.SubjectType)
	if c.App != nil {
		b.line("app", c.App.Identifier, c.App.Platform, c.App.Version)
	}
	b.values("audiences", c.Audiences)
	b.values("authorization_details_types", c.DetailTypes)
	if c.Exchange != nil {
		b.open("exchange")
		b.values("from", c.Exchange.From)
		b.values("to", c.Exchange.To)
		for _, at := range c.Exchange.IDJAG {
			b.line(append([]string{"id_jag", at.Issuer, at.ClientID}, at.Scopes...)...)
		}
		b.values("txn_token", c.Exchange.Domains)
		b.close()
	}
	b.values("origins", c.Origins)
	b.value("plan", c.Plan)
	b.value("contact", c.Contact)
	b.value("max_sessions", string(c.MaxSessions))
	b.flag("disabled", c.Disabled)
	b.value("logo", c.Logo)
	if l := c.Lifetimes; l != (Lifetimes{}) {
		b.open("lifetimes")
		b.value("code", string(l.Code))
		b.value("access_token", string(l.AccessToken))
		b.value("refresh_token", string(l.RefreshToken))
		b.value("refresh_chain", string(l.RefreshChain))
		b.value("refresh_grace", string(l.RefreshGrace))
		b.value("session", string(l.Session))
		b.close()
	}
	b.close()
	return b.text.String()
}

func (s *Subject) write(b *block, method string) {
	for _, n := range []struct{ kind, name string }{
		{"subject_dn", s.DN},
		{"san_dns", s.DNS},
		{"san_uri", s.URI},
		{"san_ip", s.IP},
		{"san_email", s.Email},
	} {
		if n.name != "" {
			b.line("auth_method", method, n.kind, n.name)
		}
	}
}

// block writes a block of a Caddyfile.
type block struct {
	text    strings.Builder
	depth   int
	literal func(word string) string // how a word is written
}

func (b *block) line(words ...string) {
	b.text.WriteString(strings.Repeat("\t", b.depth))
	for i, w := range words {
		if i > 0 {
			b.text.WriteByte(' ')
		}
		b.text.WriteString(caddyfileutil.Quote(b.literal(w)))
	}
	b.text.WriteByte('\n')
}

func (b *block) open(words ...string) {
	b.line(words...)
	text := strings.TrimSuffix(b.text.String(), "\n")
	b.text.Reset()
	b.text.WriteString(text + " {\n")
	b.depth++
}

func (b *block) close() {
	b.depth--
	b.text.WriteString(strings.Repeat("\t", b.depth) + "}\n")
}

func (b *block) value(option, v string) {
	if v != "" {
		b.line(option, v)
	}
}

func (b *block) values(option string, list []string) {
	if len(list) > 0 {
		b.line(append([]string{option}, list...)...)
	}
}

func (b *block) each(option string, list []string) {
	for _, v := range list {
		b.line(option, v)
	}
}

func (b *block) flag(option string, on bool) {
	if on {
		b.line(option)
	}
}

// given returns the words up to the first empty one.
func given(words ...string) []string {
	for i, w := range words {
		if w == "" {
			return words[:i]
		}
	}
	return words
}

func texts[S ~string](list []S) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return out
}
