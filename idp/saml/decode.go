package saml

import (
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// shape says what the library's decoder sees of an element: its attributes, each normalized by a function, and either
// its children or its text. Everything else in the element is left out.
type shape struct {
	space    string
	attrs    map[string]func(string) string
	children []string
}

// shapes is all that is read from the metadata of a provider. Other roles, extensions, contacts and services are left
// out, so a mistake in them does not make the metadata unusable. Lifetimes (validUntil, cacheDuration) are left out
// too: the library takes an empty time for no limit, and a negative duration. (*idpMetadata).validity reads them.
var shapes = map[string]shape{
	"EntityDescriptor": {nsMetadata, map[string]func(string) string{"entityID": verbatim}, []string{"IDPSSODescriptor"}},
	"IDPSSODescriptor": {
		nsMetadata,
		map[string]func(string) string{"protocolSupportEnumeration": verbatim, "WantAuthnRequestsSigned": boolean},
		[]string{"KeyDescriptor", "ArtifactResolutionService", "SingleLogoutService", "NameIDFormat", "SingleSignOnService"},
	},
	"KeyDescriptor":             {nsMetadata, map[string]func(string) string{"use": verbatim}, []string{"KeyInfo"}},
	"KeyInfo":                   {nsDsig, nil, []string{"X509Data"}},
	"X509Data":                  {nsDsig, nil, []string{"X509Certificate"}},
	"X509Certificate":           {nsDsig, nil, nil},
	"NameIDFormat":              {nsMetadata, nil, nil},
	"SingleSignOnService":       {nsMetadata, endpointAttrs, nil},
	"SingleLogoutService":       {nsMetadata, endpointAttrs, nil},
	"ArtifactResolutionService": {nsMetadata, endpointAttrs, nil},
}

var endpointAttrs = map[string]func(string) string{
	"Binding": verbatim, "Location": collapse, "ResponseLocation": collapse, "index": verbatim,
}

func verbatim(s string) string { return s }

// boolean makes an xs:boolean of any text, because the library refuses a whole document for a malformed one.
func boolean(s string) string { return strconv.FormatBool(isTrue(s)) }

// decoder fills a schema type of the library from an element. Outside tests it is decode.
type decoder func(n *node, into any) error

// decode is the only way from metadata to the library's decoder. It takes an element that the front door has let
// through, and that was verified where the metadata is signed, and passes its shape on as tokens. So the decoder never
// parses text and never sees an element that is not in shapes.
func decode(n *node, into any) error {
	if s, ok := shapes[n.Local]; !ok || s.space != n.Space {
		return fmt.Errorf("%s is not read", n.Local)
	}
	tokens := shapeTokens(nil, n)
	return xml.NewTokenDecoder(&tokens).Decode(into)
}

// tokenReader implements xml.TokenReader.
type tokenReader []xml.Token

func (r *tokenReader) Token() (xml.Token, error) {
	if len(*r) == 0 {
		return nil, io.EOF
	}
	next := (*r)[0]
	*r = (*r)[1:]
	return next, nil
}

// shapeTokens appends the tokens of an element that has a shape.
func shapeTokens(out tokenReader, n *node) tokenReader {
	s := shapes[n.Local]
	start := xml.StartElement{Name: xml.Name{Space: n.Space, Local: n.Local}}
	for name, normalize := range s.attrs {
		if value, ok := n.Attrs[name]; ok {
			start.Attr = append(start.Attr, xml.Attr{Name: xml.Name{Local: name}, Value: normalize(value)})
		}
	}
	out = append(out, start)
	if len(s.children) == 0 {
		out = append(out, xml.CharData(n.Content))
	}
	for _, c := range n.Elements {
		if slices.Contains(s.children, c.Local) && c.Space == shapes[c.Local].space {
			out = shapeTokens(out, c)
		}
	}
	return append(out, start.End())
}
