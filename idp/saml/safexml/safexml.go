// Package safexml reads the XML of other parties. It rejects anything that parsers could read differently, before any
// library sees it.
package safexml

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Namespaces of the vocabularies in documents.
const (
	NSProtocol  = "urn:oasis:names:tc:SAML:2.0:protocol"
	NSAssertion = "urn:oasis:names:tc:SAML:2.0:assertion"
	NSMetadata  = "urn:oasis:names:tc:SAML:2.0:metadata"
	NSDsig      = "http://www.w3.org/2000/09/xmldsig#"
	NSXenc      = "http://www.w3.org/2001/04/xmlenc#"
	NSXenc11    = "http://www.w3.org/2009/xmlenc11#"

	nsXML   = "http://www.w3.org/XML/1998/namespace"
	nsXMLNS = "http://www.w3.org/2000/xmlns/"
)

// Limits of a document. Building a tree costs far more than scanning, so they are checked before any library sees the
// document.
const (
	MaxMessage    = 256 << 10 // bytes of a message, decoded
	MaxMetadata   = 1 << 20   // bytes of the metadata of a provider
	maxDepth      = 64        // levels of elements
	maxElements   = 10_000
	maxDepths     = 50_000  // sum over all elements: canonicalization copies an element once for each ancestor
	maxScopes     = 120_000 // the same for the namespaces in scope, which it copies for each element
	maxAttributes = 32      // of one element, including namespace declarations
	maxAllAttrs   = 15_000  // of all elements
	maxPrefixes   = 32      // namespaces in scope
	maxName       = 256     // bytes of a name, an ID, a namespace
)

// Door says what a kind of document can contain besides elements, attributes and text.
type Door struct {
	size int
	// metadata accepts what XML allows and messages have no need for: comments, CDATA sections, processing instructions,
	// other encodings, foreign ID attributes, and the prefix xml declared. Metadata contains the extensions of others,
	// which we do not read, and is written by hand or by many tools.
	metadata bool
	// undeclared accepts xmlns="", which takes the default namespace away. (Namespaces in XML 6.2)
	undeclared bool
}

// The kinds of documents. Requests are messages that sign no one in.
var (
	Messages = Door{size: MaxMessage}
	Requests = Door{size: MaxMessage, undeclared: true}
	Metadata = Door{size: MaxMetadata, undeclared: true, metadata: true}
)

// scanner reads XML 1.0 in UTF-8 with ASCII names and without a document type. It is narrower than XML on purpose, so
// every parser reads the documents it accepts in the same way.
type scanner struct {
	Door
	raw     []byte
	at      int
	open    []openElement
	scope   []binding
	ids     map[string]bool
	foreign []string // values of ID attributes of elements that are not ours
	seen    int      // elements
	attrs   int      // of all elements
	sum     int      // of the depths of all elements
	known   int      // namespaces in scope, summed over all elements
}

type openElement struct {
	name  string // as written
	scope int    // length of the scope around it
}

type binding struct{ prefix, uri string }

// scan checks raw. ids collects the IDs of the document. IDs that it already contains are refused.
func (d Door) scan(raw []byte, ids map[string]bool) error {
	if len(raw) > d.size {
		return fmt.Errorf("it has more than %d bytes", d.size)
	}
	if !utf8.Valid(raw) {
		return errors.New("it is not UTF-8")
	}
	s := &scanner{Door: d, raw: raw, ids: ids}
	if err := s.document(); err != nil {
		return fmt.Errorf("XML at byte %d: %w", s.at, err)
	}
	// Another parser could take an element of an extension for a known one with the same ID.
	if slices.ContainsFunc(s.foreign, func(id string) bool { return ids[id] }) {
		return errors.New("an ID twice")
	}
	return nil
}

func (s *scanner) document() error {
	if err := s.declaration(); err != nil {
		return err
	}
	for done := false; s.at < len(s.raw); {
		switch {
		case len(s.open) == 0 && s.skipSpace():
		case s.next("<!--"):
			if err := s.comment(); err != nil {
				return err
			}
		case s.metadata && s.next("<?"):
			if err := s.instruction(); err != nil {
				return err
			}
		case s.metadata && len(s.open) > 0 && s.next("<![CDATA["):
			if err := s.through("]]>", "a CDATA section without an end"); err != nil {
				return err
			}
		case s.next("</"):
			if err := s.end(); err != nil {
				return err
			}
			done = len(s.open) == 0
		case s.next("<"):
			if done {
				return errors.New("a second root")
			}
			empty, err := s.start()
			if err != nil {
				return err
			}
			done = empty && len(s.open) == 0
		case len(s.open) == 0:
			return errors.New("text outside of the root")
		default:
			if err := s.text('<'); err != nil {
				return err
			}
		}
	}
	if len(s.open) > 0 || s.seen == 0 {
		return errors.New("a root element without an end")
	}
	return nil
}

// declaration reads <?xml ...?>. In messages it is the only accepted construct that begins with a question mark.
func (s *scanner) declaration() error {
	if !s.next("<?xml ") {
		return nil
	}
	inside, _, ok := bytes.Cut(s.raw[s.at:], []byte("?>"))
	if !ok || len(inside) > maxName {
		return errors.New("an XML declaration without an end")
	}
	for word := range strings.FieldsSeq(string(inside)) {
		key, value, _ := strings.Cut(word, "=")
		if len(value) < 2 || value[0] != value[len(value)-1] || value[0] != '"' && value[0] != '\'' {
			return errors.New("a malformed XML declaration")
		}
		value = value[1 : len(value)-1]
		switch {
		case key == "version" && value == "1.0", key == "encoding" && strings.EqualFold(value, "utf-8"),
			key == "standalone" && (value == "yes" || value == "no"):
		default:
			return errors.New("an XML declaration other than XML 1.0 in UTF-8")
		}
	}
	s.at += len(inside) + 2
	return nil
}

// instruction reads a processing instruction after its <?.
func (s *scanner) instruction() error {
	target, err := s.name()
	if err != nil {
		return err
	}
	if strings.EqualFold(target, "xml") || strings.Contains(target, ":") {
		return errors.New("a processing instruction with a reserved name")
	}
	if !s.skipSpace() && !bytes.HasPrefix(s.raw[s.at:], []byte("?>")) {
		return errors.New("a malformed processing instruction")
	}
	return s.through("?>", "a processing instruction without an end")
}

// through reads characters up to end, and end.
func (s *scanner) through(end, missing string) error {
	inside, _, ok := bytes.Cut(s.raw[s.at:], []byte(end))
	if !ok {
		return errors.New(missing)
	}
	if err := s.characters(inside); err != nil {
		return err
	}
	s.at += len(inside) + len(end)
	return nil
}

func (s *scanner) comment() error {
	if !s.metadata {
		return errors.New("a comment")
	}
	inside, _, ok := bytes.Cut(s.raw[s.at:], []byte("--"))
	if !ok {
		return errors.New("a comment without an end")
	}
	if err := s.characters(inside); err != nil {
		return err
	}
	if s.at += len(inside); !s.next("-->") {
		return errors.New("two dashes in a comment")
	}
	return nil
}

func (s *scanner) start() (empty bool, err error) {
	name, err := s.name()
	if err != nil {
		return false, err // also for <!DOCTYPE, <![CDATA[ and <?, since no name begins like that
	}
	around := len(s.scope)
	attrs, err := s.attributes()
	if err != nil {
		return false, err
	}
	s.seen++
	s.attrs += len(attrs)
	s.sum += len(s.open) + 1
	s.known += len(s.scope)
	if s.seen > maxElements || len(s.open) >= maxDepth || s.sum > maxDepths || s.attrs > maxAllAttrs || s.known > maxScopes {
		return false, errors.New("too many elements, or too deep")
	}
	space, err := s.checkNames(name, attrs)
	if err != nil {
		return false, err
	}
	if err := s.checkIDs(space, attrs); err != nil {
		return false, err
	}
	if s.next("/>") {
		s.scope = s.scope[:around]
		return true, nil
	}
	if !s.next(">") {
		return false, errors.New("a tag without an end")
	}
	s.open = append(s.open, openElement{name, around})
	return false, nil
}

func (s *scanner) end() error {
	name, err := s.name()
	if err != nil {
		return err
	}
	s.skipSpace()
	if len(s.open) == 0 || s.open[len(s.open)-1].name != name || !s.next(">") {
		return errors.New("an end tag that does not match its start tag")
	}
	s.scope = s.scope[:s.open[len(s.open)-1].scope]
	s.open = s.open[:len(s.open)-1]
	return nil
}

type rawAttr struct{ name, value string }

// attributes reads up to the end of the tag and adds the declared namespaces to the scope.
func (s *scanner) attributes() ([]rawAttr, error) {
	var out []rawAttr
	for n := 0; ; n++ {
		spaced := s.skipSpace()
		if s.at >= len(s.raw) || s.raw[s.at] == '>' || s.raw[s.at] == '/' {
			return out, nil
		}
		if !spaced {
			return nil, errors.New("no space before an attribute")
		}
		if n >= maxAttributes {
			return nil, errors.New("too many attributes")
		}
		name, err := s.name()
		if err != nil {
			return nil, err
		}
		s.skipSpace()
		if !s.next("=") {
			return nil, errors.New("an attribute without a value")
		}
		s.skipSpace()
		value, err := s.quoted()
		if err != nil {
			return nil, err
		}
		for _, a := range out {
			if a.name == name {
				return nil, errors.New("an attribute twice")
			}
		}
		out = append(out, rawAttr{name, value})
		if name == "xmlns" || strings.HasPrefix(name, "xmlns:") {
			if err := s.bind(strings.TrimPrefix(strings.TrimPrefix(name, "xmlns"), ":"), value); err != nil {
				return nil, err
			}
		}
	}
}

// bind declares a namespace. Relative namespaces are refused because canonicalization is undefined for them. A prefix
// can be bound again further inside: providers put one serialised document into another.
func (s *scanner) bind(prefix, uri string) error {
	switch scheme, _, ok := strings.Cut(uri, ":"); {
	case s.undeclared && prefix == "" && uri == "":
	case s.metadata && prefix == "xml" && uri == nsXML:
		return nil // Namespaces in XML 3: it can be declared, and is bound anyway
	case len(uri) > maxName || !ok || scheme == "" || strings.ContainsFunc(uri, func(c rune) bool { return c <= ' ' || c > '~' || c == '&' }):
		return errors.New("a namespace that is not an absolute URI")
	case prefix == "xml" || prefix == "xmlns" || uri == nsXML || uri == nsXMLNS:
		return errors.New("a reserved namespace")
	}
	if s.scope = append(s.scope, binding{prefix, uri}); len(s.scope) > maxPrefixes {
		return errors.New("too many namespaces")
	}
	return nil
}

func (s *scanner) lookup(prefix string) (string, bool) { return lookup(s.scope, prefix) }

func lookup(scope []binding, prefix string) (string, bool) {
	for i := len(scope) - 1; i >= 0; i-- {
		if scope[i].prefix == prefix {
			return scope[i].uri, true
		}
	}
	return "", prefix == ""
}

// checkNames resolves the prefixes and returns the namespace of the element.
func (s *scanner) checkNames(name string, attrs []rawAttr) (string, error) {
	prefix, _ := splitName(name)
	space, ok := s.lookup(prefix)
	if !ok {
		return "", errors.New("a prefix that is not bound")
	}
	var seen []binding
	for _, a := range attrs {
		prefix, local := splitName(a.name)
		if prefix == "" || prefix == "xmlns" {
			continue
		}
		uri, ok := s.lookup(prefix)
		if prefix == "xml" {
			uri, ok = nsXML, true
		}
		if !ok {
			return "", errors.New("a prefix that is not bound")
		}
		for _, have := range seen {
			if have.uri == uri && have.prefix == local {
				return "", errors.New("an attribute twice")
			}
		}
		seen = append(seen, binding{local, uri})
	}
	return space, nil
}

// checkIDs accepts one spelling for each vocabulary: ID in SAML, Id in signatures and encryption. With any other, one
// parser would find an element by its ID and another would not. Extensions in metadata have IDs of their own.
func (s *scanner) checkIDs(space string, attrs []rawAttr) error {
	for _, a := range attrs {
		_, local := splitName(a.name)
		if !strings.EqualFold(local, "id") {
			continue
		}
		ours := space == NSProtocol || space == NSAssertion || space == NSMetadata || space == NSDsig || space == NSXenc || space == NSXenc11
		switch {
		case s.metadata && !ours:
			s.foreign = append(s.foreign, a.value)
			continue
		case a.name == "ID" && (space == NSProtocol || space == NSAssertion || space == NSMetadata):
		case a.name == "Id" && (space == NSDsig || space == NSXenc || space == NSXenc11):
		default:
			return errors.New("an ID attribute of another spelling")
		}
		if !IsNCName(a.value) || len(a.value) > maxName {
			return errors.New("an ID that is not an XML name")
		}
		if s.ids[a.value] {
			return errors.New("an ID twice")
		}
		s.ids[a.value] = true
	}
	return nil
}
