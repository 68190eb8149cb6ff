package safexml

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxAggregate is the size in bytes of the metadata of a federation.
const MaxAggregate = 256 << 20

const (
	maxToken     = 1 << 20  // bytes of a tag, a text, a comment
	maxSignature = 64 << 10 // bytes of the signature of a federation, and of what is before it
)

// Picked is one entity of the metadata of a federation.
type Picked struct {
	Entity *Node
	// Around are the elements around it, the outermost first, with their attributes alone.
	Around []*Node
}

// Sealed is the signature of the root of a federation's metadata.
type Sealed struct {
	// Exclusive says that canonicalization is exclusive, but for these prefixes. Otherwise it is inclusive.
	Exclusive bool
	Prefixes  []string
	// Octets takes the canonical form of the root without its signature.
	Octets io.Writer
}

// Pick reads the metadata of a federation from a stream, and returns the entity with an entity ID. It keeps nothing
// else in memory. sealed is called with the root, which has its attributes and its signature alone, before anything
// after that is read. It returns nil if the root is not signed, or if that is of no interest. The entity is read
// from the canonical form, so it has nothing that the signature does not cover; it counts once the octets are
// checked.
func Pick(r io.Reader, entityID string, sealed func(root *Node) (*Sealed, error)) (*Picked, error) {
	s := &stream{in: bufio.NewReaderSize(&limited{r, MaxAggregate}, 64<<10), want: entityID, sealed: sealed}
	s.Door = Metadata
	out, err := s.run()
	if err != nil {
		return nil, fmt.Errorf("XML at byte %d: %w", s.begun, err)
	}
	return out, nil
}

// limited refuses what is longer.
type limited struct {
	io.Reader

	left int64
}

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, fmt.Errorf("it has more than %d bytes", int64(MaxAggregate))
	}
	return n, err
}

// stream reads the elements of a document one after the other, with the scanner of whole documents.
type stream struct {
	scanner

	in     *bufio.Reader
	begun  int64 // where the current token begins
	size   int64 // of it
	empty  bool  // the element that is open ends with its start tag
	want   string
	sealed func(*Node) (*Sealed, error)

	form   canonical
	octets io.Writer
	around []*Node // that are open, from the root on
	entity *bytes.Buffer
	depth  int // of the entity
	picked *Picked
}

// The kinds of events.
const (
	startEvent = iota
	endEvent
	textEvent
	instructionEvent
	endOfFile
)

// event is a part of a document.
type event struct {
	kind  int
	name  string    // of an element
	attrs []rawAttr // of a start
	text  string    // of a text, resolved; of an instruction, as written
	token []byte    // as written
}

func (s *stream) run() (*Picked, error) {
	if mark, _ := s.in.Peek(3); string(mark) == "\ufeff" {
		_, _ = s.in.Discard(3)
	}
	root, err := s.outside()
	if err != nil {
		return nil, err
	}
	if root.kind == endOfFile {
		return nil, errors.New("a root element is missing")
	}
	if !s.is(root.name, "EntitiesDescriptor") && !s.is(root.name, "EntityDescriptor") {
		return nil, errors.New("it is neither an EntityDescriptor nor an EntitiesDescriptor")
	}
	next, err := s.open1(root)
	if err != nil {
		return nil, err
	}
	for len(s.open) > 0 {
		if err := s.take(next); err != nil {
			return nil, err
		}
		if len(s.open) == 0 {
			break
		}
		if next, err = s.next(); err != nil {
			return nil, err
		}
	}
	switch after, err := s.outside(); {
	case err != nil:
		return nil, err
	case after.kind != endOfFile:
		return nil, errors.New("a second root")
	case s.picked == nil:
		return nil, fmt.Errorf("there is no entity %q", s.want)
	}
	return s.picked, nil
}

// outside returns the next start of a root, or the end of the file.
func (s *stream) outside() (*event, error) {
	for {
		ev, err := s.next()
		switch {
		case err != nil:
			return nil, err
		case ev.kind == startEvent, ev.kind == endOfFile:
			return ev, nil
		case ev.kind == textEvent && (strings.Trim(ev.text, " \t\r\n") != "" || bytes.HasPrefix(ev.token, []byte("<"))):
			return nil, errors.New("text outside of the root")
		}
	}
}

// open1 reads the root up to the end of its signature, and returns what comes after that.
func (s *stream) open1(root *event) (*event, error) {
	scope, held := slices.Clone(s.scope), []*event{}
	size := len(root.token)
	next, err := s.next()
	for ; err == nil && next.kind != startEvent && next.kind != endEvent; next, err = s.next() {
		if next.kind == endOfFile {
			return nil, errors.New("a root element without an end")
		}
		held = append(held, next)
		if size += len(next.token); size > maxSignature {
			return nil, errors.New("too much text before the first element")
		}
	}
	if err != nil {
		return nil, err
	}
	doc := bytes.TrimSuffix(bytes.TrimSuffix(slices.Clone(root.token), []byte(">")), []byte("/"))
	doc = append(doc, '>')
	if prefix, local := splitName(next.name); next.kind == startEvent && local == "Signature" {
		if space, _ := s.lookup(prefix); space == NSDsig {
			if doc, next, err = s.signature(doc, next); err != nil {
				return nil, err
			}
		}
	}
	node, err := Metadata.Parse(append(doc, "</"+root.name+">"...), map[string]bool{})
	if err != nil {
		return nil, err
	}
	s.octets = io.Discard
	if s.sealed != nil {
		how, err := s.sealed(node)
		if err != nil {
			return nil, err
		}
		if how != nil {
			s.octets, s.form.exclusive, s.form.prefixes = how.Octets, how.Exclusive, how.Prefixes
		}
	}
	if err := s.start(root, scope, 1); err != nil {
		return nil, err
	}
	for _, ev := range held {
		if err := s.take(ev); err != nil {
			return nil, err
		}
	}
	return next, nil
}

// signature appends the signature that begins with an event to a document, and returns what comes after it.
func (s *stream) signature(doc []byte, ev *event) ([]byte, *event, error) {
	depth := len(s.open)
	for {
		if !(ev.kind == endEvent && s.empty) { // the end of an element that has one tag
			doc = append(doc, ev.token...)
		}
		if ev.kind == endEvent {
			s.close1()
		}
		if len(doc) > 2*maxSignature {
			return nil, nil, errors.New("a signature that is too long")
		}
		ended := len(s.open) < depth
		var err error
		if ev, err = s.next(); err != nil || ended {
			return doc, ev, err
		}
		if ev.kind == endOfFile {
			return nil, nil, errors.New("a root element without an end")
		}
	}
}

// take passes an event inside the root on to where it is wanted.
func (s *stream) take(ev *event) error {
	switch ev.kind {
	case startEvent:
		return s.start(ev, s.scope, len(s.open))
	case endEvent:
		depth := len(s.open)
		s.close1()
		if err := s.write([]byte("</" + ev.name + ">")); err != nil {
			return err
		}
		s.form.end()
		if len(s.around) == depth {
			s.around = s.around[:depth-1]
		}
		if s.entity != nil && s.depth == depth {
			var err error
			s.picked.Entity, err = Metadata.Parse(s.entity.Bytes(), map[string]bool{})
			s.entity = nil
			return err
		}
		return nil
	case textEvent:
		return s.write(escape(ev.text, false))
	case instructionEvent:
		return s.write([]byte(ev.text))
	}
	return errors.New("a root element without an end")
}

func (s *stream) start(ev *event, scope []binding, depth int) error {
	tag, detached := s.form.start(scope, ev)
	around := len(s.around) == depth-1
	if around && s.isIn(scope, ev.name, "EntityDescriptor") && valueOf(ev.attrs, "entityID") == s.want {
		if s.picked != nil {
			return errors.New("the entity is there twice")
		}
		s.entity, s.depth, s.picked = bytes.NewBuffer(detached), depth, &Picked{Around: slices.Clone(s.around)}
		_, err := s.octets.Write(tag)
		return err
	}
	if around && s.isIn(scope, ev.name, "EntitiesDescriptor") {
		n := &Node{Space: NSMetadata, Local: "EntitiesDescriptor", Attrs: map[string]string{}}
		for _, a := range ev.attrs {
			n.Attrs[a.name] = resolve(a.value)
		}
		s.around = append(s.around, n)
	}
	return s.write(tag)
}

func (s *stream) write(form []byte) error {
	if s.entity != nil {
		if s.entity.Len()+len(form) > MaxMetadata {
			return fmt.Errorf("an entity with more than %d bytes", MaxMetadata)
		}
		s.entity.Write(form)
	}
	_, err := s.octets.Write(form)
	return err
}

func (s *stream) is(name, want string) bool { return s.isIn(s.scope, name, want) }

// isIn reports whether an element has a name of metadata.
func (*stream) isIn(scope []binding, name, want string) bool {
	prefix, local := splitName(name)
	space, _ := lookup(scope, prefix)
	return space == NSMetadata && local == want
}

func valueOf(attrs []rawAttr, name string) string {
	for _, a := range attrs {
		if a.name == name {
			return resolve(a.value)
		}
	}
	return ""
}

// close1 closes the element that is open.
func (s *stream) close1() {
	s.scope = s.scope[:s.open[len(s.open)-1].scope]
	s.open = s.open[:len(s.open)-1]
	s.empty = false
}

// next reads the next event. An element without content has two. The caller closes the element after its end.
func (s *stream) next() (*event, error) {
	if s.empty {
		return &event{kind: endEvent, name: s.open[len(s.open)-1].name}, nil
	}
	for {
		s.begun += s.size
		token, err := s.token()
		if err != nil {
			return nil, err
		}
		if s.size = int64(len(token)); len(token) == 0 {
			return &event{kind: endOfFile}, nil
		}
		if !utf8.Valid(token) {
			return nil, errors.New("it is not UTF-8: save it as UTF-8")
		}
		s.raw, s.at = token, 0
		ev, err := s.event(token)
		if err != nil || ev != nil {
			return ev, err
		}
	}
}

// event reads a token. nil: it says nothing.
func (s *stream) event(token []byte) (*event, error) {
	switch {
	case s.scanner.next("<!--"):
		return nil, s.comment()
	case s.begun == 0 && bytes.HasPrefix(token, []byte("<?xml")) && len(token) > 5 && IsSpace(rune(token[5])):
		if found := declared.FindSubmatch(token); found == nil || len(found[1]) > 0 && !strings.EqualFold(string(found[1]), "utf-8") {
			return nil, errors.New("an XML declaration other than XML 1.0 in UTF-8: save it as UTF-8")
		}
		return nil, nil
	case s.scanner.next("<?"):
		if err := s.instruction(); err != nil {
			return nil, err
		}
		target, data, _ := strings.Cut(lines(string(token[2:len(token)-2]))+" ", " ")
		if i := strings.IndexAny(target, "\t\n"); i >= 0 {
			target, data = target[:i], target[i:]+" "+data
		}
		if data = strings.TrimLeft(strings.TrimSuffix(data, " "), " \t\n"); data != "" {
			data = " " + data
		}
		return &event{kind: instructionEvent, text: "<?" + target + data + "?>", token: token}, nil
	case s.scanner.next("<![CDATA["):
		text := token[s.at : len(token)-len("]]>")]
		return &event{kind: textEvent, text: lines(string(text)), token: token}, s.characters(text)
	case s.scanner.next("</"):
		name, err := s.name()
		if err != nil {
			return nil, err
		}
		s.skipSpace()
		if len(s.open) == 0 || s.open[len(s.open)-1].name != name || !s.scanner.next(">") || s.at != len(token) {
			return nil, errors.New("an end tag that does not match its start tag")
		}
		return &event{kind: endEvent, name: name, token: token}, nil
	case s.scanner.next("<"):
		return s.tag(token)
	}
	s.raw = append(slices.Clip(token), '<') // which ends a text
	if err := s.text('<'); err != nil {
		return nil, err
	}
	return &event{kind: textEvent, text: resolve(lines(string(token))), token: token}, nil
}

func (s *stream) tag(token []byte) (*event, error) {
	name, err := s.name()
	if err != nil {
		return nil, err
	}
	around := len(s.scope)
	attrs, err := s.attributes()
	if err != nil {
		return nil, err
	}
	if len(s.open) >= maxDepth {
		return nil, errors.New("too deep")
	}
	if _, err := s.checkNames(name, attrs); err != nil {
		return nil, err
	}
	for i := range attrs { // attribute values have no line ends (XML 3.3.3)
		attrs[i].value = strings.Map(func(c rune) rune {
			if IsSpace(c) {
				return ' '
			}
			return c
		}, lines(attrs[i].value))
	}
	s.empty = s.scanner.next("/")
	if !s.scanner.next(">") || s.at != len(token) {
		return nil, errors.New("a tag without an end")
	}
	s.open = append(s.open, openElement{name, around})
	return &event{kind: startEvent, name: name, attrs: attrs, token: token}, nil
}

// token reads a tag, a text, a comment, an instruction or a CDATA section, as written. Empty: the end of the file.
func (s *stream) token() ([]byte, error) {
	head, err := s.in.Peek(9)
	if len(head) == 0 {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, err
	}
	switch {
	case head[0] != '<':
		return s.textToken()
	case bytes.HasPrefix(head, []byte("<!--")):
		return s.through([]byte("<!--"), []byte("-->"))
	case bytes.HasPrefix(head, []byte("<![CDATA[")):
		return s.through([]byte("<![CDATA["), []byte("]]>"))
	case bytes.HasPrefix(head, []byte("<!")):
		return nil, errors.New("a document type")
	case bytes.HasPrefix(head, []byte("<?")):
		return s.through([]byte("<?"), []byte("?>"))
	}
	quote := byte(0)
	return s.until(func(b []byte) bool {
		c := b[len(b)-1]
		switch {
		case quote == c:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		}
		return c == '>' && quote == 0
	})
}

// through reads from a beginning to an end.
func (s *stream) through(begin, end []byte) ([]byte, error) {
	return s.until(func(b []byte) bool { return len(b) >= len(begin)+len(end) && bytes.HasSuffix(b, end) })
}

func (s *stream) textToken() ([]byte, error) {
	return s.until(func([]byte) bool {
		next, _ := s.in.Peek(1)
		return len(next) == 0 || next[0] == '<'
	})
}

// until reads bytes until they are a whole token.
func (s *stream) until(whole func([]byte) bool) ([]byte, error) {
	var out []byte
	for {
		c, err := s.in.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			return nil, errors.New("it ends too early")
		case err != nil:
			return nil, err
		case len(out) == maxToken:
			return nil, fmt.Errorf("a tag or a text with more than %d bytes", maxToken)
		}
		if out = append(out, c); whole(out) {
			return out, nil
		}
	}
}
