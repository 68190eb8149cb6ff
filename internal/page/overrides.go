package page

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

// live is what changes while the renderer is in use. The renderers of other origins share it.
type live struct {
	catalogue atomic.Pointer[current]
	overrides func(context.Context) []*Overrides // nil: none
	extension atomic.Pointer[extension]          // nil: none
	// organisations is asked whom an application belongs to. nil: nobody knows
	organisations func(context.Context) *Organisations
	reload        sync.Mutex // held while the extension directory is read
}

// SetOverrides names who is asked, at each page, for the messages that take the place of ours, the strongest first. It is called before the
// renderer is used, if at all. What is returned is compared by its pointers: the same ones mean that nothing has changed.
func (p *Renderer) SetOverrides(from func(context.Context) []*Overrides) { p.overrides = from }

// current is a catalogue and what it was made of.
type current struct {
	layers []*Overrides
	*catalogue
}

// messages returns the catalogue of now.
func (p *Renderer) messages(ctx context.Context) *catalogue {
	layers := p.asked(ctx)
	if ext := p.extension.Load(); ext != nil && ext.messages != nil {
		layers = append(layers[:len(layers):len(layers)], ext.messages)
	}
	layers = slices.DeleteFunc(slices.Clone(layers), func(o *Overrides) bool { return o == nil })
	have := p.catalogue.Load()
	if slices.Equal(have.layers, layers) {
		return have.catalogue
	}
	c, err := newCatalogue(p.cfg.Locales, layers)
	if err != nil { // the locales were good when the renderer was made
		p.cfg.Log.Error("messages not renewed", zap.Error(err))
		return have.catalogue
	}
	p.catalogue.Store(&current{layers, c})
	return c
}

// asked returns what SetOverrides has named. A panic there is logged and means that there is nothing: a page that says that something is wrong is
// made for panics too.
func (p *Renderer) asked(ctx context.Context) (layers []*Overrides) {
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

// Words returns the messages for what is not a page, such as an e-mail, in the first of the wanted languages that there is.
func (p *Renderer) Words(ctx context.Context, wanted []string) Words {
	return p.messages(ctx).match(&http.Request{Header: http.Header{}}, "", wanted, "")
}

// Button returns the colour of a button and of the text on it, as #rrggbb.
func (p *Renderer) Button() (ground, ink string) {
	brand, err := parseColor(cmp.Or(p.cfg.Brand.Color, defaultColor))
	if err != nil { // New has read it
		brand = mustColor(defaultColor)
	}
	a, b := light.accent(brand)
	return a.String(), b.String()
}

// BrandName returns the name of whoever runs the pages.
func (p *Renderer) BrandName() string { return p.cfg.Brand.Name }
