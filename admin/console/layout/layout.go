// Package layout is the frame of all screens of the admin console: rights, the age of a sign-in, form tokens,
// navigation, and the confirmation before an act.
//
// A screen is a value of type Screen. It declares its path, the role that sees it, its subject, how it is shown, and
// its acts. An act is a page that asks for confirmation, with the number of records that it affects, and a form that
// carries it out. Sign-in, level, age of the sign-in, rights, forged forms and navigation need nothing else: the list
// of screens is their only source. Texts are messages that begin with console.
package layout

import (
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Root is the path of the console.
const Root = "/admin"

// Config is the operator's configuration of the console.
type Config struct {
	// Level is the level that a session needs. Default: 2
	Level int
	// Groups are the names of the groups of the roles. Default: gatehouse- and the name of the role
	Groups map[Role]string
	// SeeAs is the role from which on someone can look at the accounts of others. Default: no one can
	SeeAs Role
}

// Deps are the dependencies of every screen.
type Deps struct {
	Identity *identity.Service
	Store    storage.Store
	Pages    *web.Renderer
	Now      func() time.Time
	// After is time.After. nil: that of package time
	After func(time.Duration) <-chan time.Time
}

// Frame serves screens. It is safe for concurrent use.
type Frame struct {
	Deps
	Config

	// Waiting returns how many matters wait for someone on screens of the navigation, by their names. nil: none
	Waiting func(v *Visit) (map[string]int, error)
	// Acted is called after something was done, which can change what waits. nil: no one wants to know
	Acted func()

	screens []*Screen
	mux     *http.ServeMux
	streams streams
}

// New returns a frame without screens.
func New(cfg Config, d Deps) *Frame {
	if d.After == nil {
		d.After = time.After
	}
	return &Frame{
		Deps: d, Config: cfg.complete(), mux: http.NewServeMux(),
		streams: streams{open: map[string]int{}, ended: make(chan struct{})},
	}
}

// Add adds screens, with the paths of what is done on them.
func (f *Frame) Add(screens ...*Screen) {
	for _, s := range screens {
		f.screens = append(f.screens, s)
		f.mux.Handle(Root+s.Path, f.Identity.Front.Pages(f.showScreen(s), nil))
		for _, a := range s.Acts {
			f.mux.Handle(Root+s.Path+"/"+a.Name, f.Identity.Front.Pages(f.showAct(s, a), f.handleAct(s, a)))
		}
	}
}

// Close adds the answer to a path that no screen has, as to everybody: who may not see the console learns nothing of
// it. It is called once, after the last Add.
func (f *Frame) Close() {
	f.mux.Handle(Root+"/", f.Identity.Front.Pages(func(*webflow.Request) error { return webflow.NotFound() }, nil))
}

// ServeHTTP answers the paths of the screens, and 404 for others.
func (f *Frame) ServeHTTP(w http.ResponseWriter, r *http.Request) { f.mux.ServeHTTP(w, r) }
