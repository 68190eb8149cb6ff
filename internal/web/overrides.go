package web

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"
)

// liveState is the part of the renderer that changes while it is in use. The renderers of other origins share it.
type liveState struct {
	catalogue atomic.Pointer[catalogueState]
	overrides func(context.Context) []*Overrides // nil: none
	extension atomic.Pointer[extension]          // nil: none
	// organisations returns the owners of applications. nil: unknown
	organisations func(context.Context) *Organisations
	logos         Logos           // nil: there are those of the configuration alone
	files         func() []string // nil: unknown
	reload        sync.Mutex      // held while the extension directory is read
}

// SetOverrides sets the function that returns the custom messages, the first taking precedence; it is called for each
// page. Call SetOverrides before the renderer is used, if at all. The results are compared by their pointers: equal
// pointers mean no change.
func (p *Renderer) SetOverrides(from func(context.Context) []*Overrides) { p.overrides = from }

// catalogueState is a catalogue and the layers it was made from.
type catalogueState struct {
	layers []*Overrides
	*catalogue
}

// messages returns the current catalogue.
func (p *Renderer) messages(ctx context.Context) *catalogue {
	layers := p.customMessages(ctx)
	if ext := p.extension.Load(); ext != nil && ext.messages != nil {
		layers = append(layers[:len(layers):len(layers)], ext.messages)
	}
	layers = slices.DeleteFunc(slices.Clone(layers), func(o *Overrides) bool { return o == nil })
	have := p.catalogue.Load()
	if slices.Equal(have.layers, layers) {
		return have.catalogue
	}
	c, err := newCatalogue(p.cfg.Locales, layers, p.cfg.EmailUsernames)
	if err != nil { // the locales were valid when the renderer was made
		p.cfg.Log.Error("messages not updated", zap.Error(err))
		return have.catalogue
	}
	p.catalogue.Store(&catalogueState{layers, c})
	return c
}

// customMessages returns the result of the function that SetOverrides has set. A panic there is logged and counts as no
// messages, because the error page for a panic needs messages too.
func (p *Renderer) customMessages(ctx context.Context) (layers []*Overrides) {
	if p.overrides == nil {
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			p.cfg.Log.Error("messages not read", zap.String("panic", fmt.Sprintf("%T", v)))
			layers = nil
		}
	}()
	return p.overrides(ctx)
}

// Words are the messages of one language.
type Words interface {
	// T returns the message of a key. Pairs of name and value fill in "{name}".
	T(key string, pairs ...any) string
	// Lang returns the BCP 47 tag of the language.
	Lang() string
}

// Words returns the messages for text outside of pages, such as an e-mail, in the first available of the wanted
// languages.
func (p *Renderer) Words(ctx context.Context, wanted []string) Words {
	return p.messages(ctx).match(&http.Request{Header: http.Header{}}, "", wanted, "")
}

// Button returns the colour of a button and of the text on it, as #rrggbb.
func (p *Renderer) Button() (ground, ink string) {
	brand, err := parseColor(cmp.Or(p.cfg.Brand.Color, defaultColor))
	if err != nil { // New has parsed it
		brand = mustColor(defaultColor)
	}
	a, b := light.accent(brand)
	return a.String(), b.String()
}

// BrandName returns the name of the operator's brand.
func (p *Renderer) BrandName() string { return p.cfg.Brand.Name }
