package saml

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/beevik/etree"

	"github.com/gatehouse-id/gatehouse/idp"
)

// node is an element with resolved names. Its text is complete, even if other nodes split it.
type node struct {
	space, name string
	attrs       map[string]string // by name; with a prefix by {namespace}name
	text        string
	children    []*node
	el          *etree.Element
}

func invalid(reason string) error { return &idp.Invalid{Reason: reason} }

func invalidBy(reason string, cause error) error { return &idp.Invalid{Reason: reason, Cause: cause} }

// parse returns the root of a document that passes the door.
func (d door) parse(raw []byte, ids map[string]bool) (*node, error) {
	if err := d.scan(raw, ids); err != nil {
		return nil, err
	}
	doc := etree.NewDocument()
	doc.ReadSettings.MaxDepth = maxDepth
	if err := doc.ReadFromBytes(raw); err != nil {
		return nil, err
	}
	return newNode(doc.Root(), nil)
}

// newNode resolves the names of el in the scope of the declarations around it.
func newNode(el *etree.Element, around []binding) (*node, error) {
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
	n := &node{space: space, name: el.Tag, attrs: map[string]string{}, el: el}
	for _, a := range el.Attr {
		switch {
		case a.Space == "xmlns" || a.Space == "" && a.Key == "xmlns":
		case a.Space == "":
			n.attrs[a.Key] = a.Value
		default:
			uri, _ := s.lookup(a.Space)
			n.attrs["{"+uri+"}"+a.Key] = a.Value
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
			n.children = append(n.children, inner)
		}
	}
	n.text = text.String()
	return n, nil
}

func (n *node) is(space, name string) bool { return n != nil && n.space == space && n.name == name }

// closed refuses text between the children, and children other than those listed: by plain name in the namespace of n,
// or as {namespace}name.
func (n *node) closed(names ...string) error {
	if strings.TrimFunc(n.text, isSpace) != "" {
		return fmt.Errorf("text in %s", n.name)
	}
	for _, c := range n.children {
		own := c.space == n.space && slices.Contains(names, c.name)
		if !own && !slices.Contains(names, "{"+c.space+"}"+c.name) {
			return fmt.Errorf("an unexpected element in %s", n.name)
		}
	}
	return nil
}

// all returns the children with that name.
func (n *node) all(space, name string) []*node {
	var out []*node
	for _, c := range n.children {
		if c.is(space, name) {
			out = append(out, c)
		}
	}
	return out
}

// optional returns the only child with that name, or nil if it is absent.
func (n *node) optional(space, name string) (*node, error) {
	switch found := n.all(space, name); len(found) {
	case 0:
		return nil, nil
	case 1:
		return found[0], nil
	default:
		return nil, fmt.Errorf("%s twice in %s", name, n.name)
	}
}

// one returns the only child with that name.
func (n *node) one(space, name string) (*node, error) {
	c, err := n.optional(space, name)
	if err == nil && c == nil {
		err = fmt.Errorf("no %s in %s", name, n.name)
	}
	return c, err
}

// leaf returns the text of an element that has no children.
func (n *node) leaf() (string, error) {
	if len(n.children) > 0 {
		return "", fmt.Errorf("elements in %s", n.name)
	}
	return n.text, nil
}

// count returns the number of elements with one of the local names, in any namespace and case, including n itself.
func (n *node) count(names ...string) int {
	total := 0
	for _, name := range names {
		if strings.EqualFold(n.name, name) {
			total++
		}
	}
	for _, c := range n.children {
		total += c.count(names...)
	}
	return total
}

// detached returns a copy of the element that declares all namespaces in scope, so that it does not depend on its
// ancestors.
func (n *node) detached() *etree.Element {
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
