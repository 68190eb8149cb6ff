package safexml

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/beevik/etree"
)

// Node is an element with resolved names. Its text is complete, even if other nodes split it.
type Node struct {
	Space, Local string
	Attrs        map[string]string // by name; with a prefix by {namespace}name
	Content      string            // the text between its children
	Elements     []*Node
	el           *etree.Element
}

// Parse returns the root of a document that passes the door.
func (d Door) Parse(raw []byte, ids map[string]bool) (*Node, error) {
	if d.metadata {
		var err error
		if raw, err = toUTF8(raw); err != nil {
			return nil, err
		}
	}
	if err := d.scan(raw, ids); err != nil {
		return nil, err
	}
	doc := etree.NewDocument()
	doc.ReadSettings.MaxDepth = maxDepth
	if err := doc.ReadFromBytes(raw); err != nil {
		return nil, err
	}
	if d.metadata {
		plain(doc.Root())
	}
	return newNode(doc.Root(), nil)
}

// plain removes the declarations of the prefix xml, which canonical XML does not have and the library would keep.
func plain(el *etree.Element) {
	if el == nil {
		return
	}
	el.RemoveAttr("xmlns:xml")
	for _, c := range el.ChildElements() {
		plain(c)
	}
}

// FromTree returns an element of a tree that a library has made of a document that passed the door.
func FromTree(root *etree.Element) (*Node, error) { return newNode(root, nil) }

// newNode resolves the names of el in the scope of the declarations around it.
func newNode(el *etree.Element, around []binding) (*Node, error) {
	if el == nil {
		return nil, errors.New("no root")
	}
	scope := around[:len(around):len(around)]
	for _, a := range el.Attr {
		switch {
		case a.Space == "xmlns":
			scope = append(scope, binding{a.Key, a.Value})
		case a.Space == "" && a.Key == "xmlns":
			scope = append(scope, binding{"", a.Value})
		}
	}
	s := scanner{scope: scope}
	space, ok := s.lookup(el.Space)
	if !ok {
		return nil, errors.New("a prefix that is not bound")
	}
	n := &Node{Space: space, Local: el.Tag, Attrs: map[string]string{}, el: el}
	for _, a := range el.Attr {
		switch {
		case a.Space == "xmlns" || a.Space == "" && a.Key == "xmlns":
		case a.Space == "":
			n.Attrs[a.Key] = a.Value
		default:
			uri, _ := s.lookup(a.Space)
			n.Attrs["{"+uri+"}"+a.Key] = a.Value
		}
	}
	var text strings.Builder
	for _, child := range el.Child {
		switch c := child.(type) {
		case *etree.CharData:
			text.WriteString(c.Data)
		case *etree.Element:
			inner, err := newNode(c, scope)
			if err != nil {
				return nil, err
			}
			n.Elements = append(n.Elements, inner)
		}
	}
	n.Content = text.String()
	return n, nil
}

// Is reports whether an element has that name. A nil element has none.
func (n *Node) Is(space, name string) bool { return n != nil && n.Space == space && n.Local == name }

// Closed refuses text between the children, and children other than those listed: by plain name in the namespace of n,
// or as {namespace}name.
func (n *Node) Closed(names ...string) error {
	if strings.TrimFunc(n.Content, IsSpace) != "" {
		return fmt.Errorf("text in %s", n.Local)
	}
	for _, c := range n.Elements {
		own := c.Space == n.Space && slices.Contains(names, c.Local)
		if !own && !slices.Contains(names, "{"+c.Space+"}"+c.Local) {
			return fmt.Errorf("an unexpected element in %s", n.Local)
		}
	}
	return nil
}

// Name returns the local name of an element of the protocol, "" for one of another namespace.
func (n *Node) Name() string {
	if n.Space != NSProtocol {
		return ""
	}
	return n.Local
}

// Attr returns an attribute without prefix, and whether there is one.
func (n *Node) Attr(name string) (string, bool) { v, ok := n.Attrs[name]; return v, ok }

// Children returns the children with that name.
func (n *Node) Children(space, name string) []*Node {
	var out []*Node
	for _, c := range n.Elements {
		if c.Is(space, name) {
			out = append(out, c)
		}
	}
	return out
}

// Child returns the only child with that name, or nil if it is absent.
func (n *Node) Child(space, name string) (*Node, error) {
	switch found := n.Children(space, name); len(found) {
	case 0:
		return nil, nil
	case 1:
		return found[0], nil
	default:
		return nil, fmt.Errorf("%s twice in %s", name, n.Local)
	}
}

// One returns the only child with that name.
func (n *Node) One(space, name string) (*Node, error) {
	c, err := n.Child(space, name)
	if err == nil && c == nil {
		err = fmt.Errorf("no %s in %s", name, n.Local)
	}
	return c, err
}

// Text returns the text of an element that has no children.
func (n *Node) Text() (string, error) {
	if len(n.Elements) > 0 {
		return "", fmt.Errorf("elements in %s", n.Local)
	}
	return n.Content, nil
}

// Count returns the number of elements with one of the local names, in any namespace and case, including n itself.
func (n *Node) Count(names ...string) int {
	total := 0
	for _, name := range names {
		if strings.EqualFold(n.Local, name) {
			total++
		}
	}
	for _, c := range n.Elements {
		total += c.Count(names...)
	}
	return total
}

// AllText returns the text of the element and of all its descendants.
func (n *Node) AllText() string {
	var b strings.Builder
	b.WriteString(n.Content)
	for _, c := range n.Elements {
		b.WriteString(" ")
		b.WriteString(c.AllText())
	}
	return b.String()
}

// Place returns the index of the element among all that its parent holds.
func (n *Node) Place() int { return n.el.Index() }

// Detached returns a copy of the element that declares all namespaces in scope, so it does not depend on its ancestors.
func (n *Node) Detached() *etree.Element {
	el := n.el.Copy()
	for up := n.el.Parent(); up != nil; up = up.Parent() {
		for _, a := range up.Attr {
			if key := a.FullKey(); (a.Space == "xmlns" || key == "xmlns") && el.SelectAttr(key) == nil {
				el.CreateAttr(key, a.Value)
			}
		}
	}
	return el
}
