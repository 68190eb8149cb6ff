package saml

import (
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/beevik/etree"
	schema "github.com/crewjam/saml"
	dsig "github.com/russellhaering/goxmldsig"

	"github.com/gatehouse-id/gatehouse/idp"
)

const (
	nsCustom = "urn:com:service:saml:CustomParameters"

	bindingRedirect = schema.HTTPRedirectBinding
	bindingPost     = schema.HTTPPostBinding
	bindingArtifact = schema.HTTPArtifactBinding

	version = "2.0" // of the messages
)

// authnRequest is the content of a samlp:AuthnRequest. (SAML core 3.4.1)
type authnRequest struct {
	ID, Issuer, Destination, ACS, Binding, ProviderName, NameID string

	Now            time.Time
	Force, Passive bool
	Context        *AuthnContext
	Custom         map[string][]string

	Bare    bool   // without a policy for the NameID
	ByIndex bool   // names our endpoint by its index in our metadata
	Via     string // entity ID of the provider that a broker sends the person to
}

// newID returns the ID of a message: 160 random bits after an underscore, since XML names must not begin with a digit.
func newID(random io.Reader) (string, error) {
	b := make([]byte, 20)
	if _, err := io.ReadFull(random, b); err != nil {
		return "", err
	}
	return "_" + hex.EncodeToString(b), nil
}

// Our messages are schema types of the library. Parts that these lack are added to the element that they produce:
// extensions, some attributes. IDs, times and signatures are our own.

// newIssuer returns the sender of a message.
func newIssuer(entityID string) *schema.Issuer { return &schema.Issuer{Value: plain(entityID)} }

// issueInstant returns the time of a message: in UTC, to the second.
func issueInstant(now time.Time) time.Time { return now.UTC().Truncate(time.Second) }

func (q authnRequest) element() *etree.Element {
	r := schema.AuthnRequest{
		ID: q.ID, Version: version, IssueInstant: issueInstant(q.Now), Destination: q.Destination, Issuer: newIssuer(q.Issuer),
		NameIDPolicy: q.nameIDPolicy(), ProtocolBinding: q.Binding, AssertionConsumerServiceURL: q.ACS, ProviderName: plain(q.ProviderName),
	}
	if q.Bare {
		r.NameIDPolicy = nil
	}
	if q.ByIndex {
		r.ProtocolBinding, r.AssertionConsumerServiceURL, r.AssertionConsumerServiceIndex = "", "", strconv.Itoa(serviceIndex[q.Binding])
	}
	if q.Force {
		r.ForceAuthn = new(true)
	}
	if q.Passive {
		r.IsPassive = new(true)
	}
	if q.Context != nil {
		r.RequestedAuthnContext = &schema.RequestedAuthnContext{Comparison: q.Context.Comparison, AuthnContextClassRefs: q.Context.Classes}
	}
	if q.Via != "" {
		r.Scoping = &schema.Scoping{IDPList: &schema.IDPList{IDPEntries: []schema.IDPEntry{{ProviderID: q.Via}}}}
	}
	e := r.Element()
	if len(q.Custom) > 0 { // SAML core 3.2.1: after Issuer and Signature
		e.InsertChildAt(e.SelectElement("Issuer").Index()+1, q.extensions())
	}
	return e
}

func (q authnRequest) nameIDPolicy() *schema.NameIDPolicy {
	policy := &schema.NameIDPolicy{Format: &q.NameID}
	if q.NameID != formatTransient { // SAML core 3.4.1.1: AllowCreate must not be used with transient
		policy.AllowCreate = new(true)
	}
	return policy
}

// extensions returns the external_idp_custom_param.* of the authorization request. They are sorted, so the same request
// always gives the same message.
func (q authnRequest) extensions() *etree.Element {
	e := etree.NewElement("samlp:Extensions")
	list := e.CreateElement("CustomParameters")
	list.CreateAttr("xmlns", nsCustom)
	for _, key := range slices.Sorted(maps.Keys(q.Custom)) {
		p := list.CreateElement("CustomParameter")
		p.CreateAttr("Key", plain(key))
		for _, value := range q.Custom[key] {
			p.CreateElement("Value").SetText(plain(value))
		}
	}
	return e
}

// plain makes untrusted text safe for XML: characters that XML does not allow, and control characters that
// normalization would change under the signature, become spaces.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError || r == 0xFFFE || r == 0xFFFF {
			return ' '
		}
		return r
	}, s)
}

// sign inserts an enveloped signature after the Issuer and before Extensions, as the schema requires. (SAML core 5.4)
func sign(e *etree.Element, key *idp.Key) error {
	ctx, err := dsig.NewSigningContext(key.Signer, [][]byte{key.Certificate.Raw})
	if err != nil {
		return err
	}
	ctx.Canonicalizer = dsig.MakeC14N10ExclusiveCanonicalizerWithPrefixList("")
	if err := ctx.SetSignatureMethod(dsig.RSASHA256SignatureMethod); err != nil {
		return err
	}
	sig, err := ctx.ConstructSignature(e, true)
	if err != nil {
		return fmt.Errorf("sign: %w", err)
	}
	issuer := e.SelectElement("Issuer")
	if issuer == nil {
		return fmt.Errorf("sign: %s has no Issuer", e.Tag)
	}
	e.InsertChildAt(issuer.Index()+1, sig)
	return nil
}

// write returns the element as a document.
func write(e *etree.Element) ([]byte, error) {
	doc := etree.NewDocument()
	doc.SetRoot(e)
	return doc.WriteToBytes()
}
