package console

import "github.com/gatehouse-id/gatehouse/identity/front"

// routes adds every path: those of the screens, and of what is done on them.
func (c *Console) routes() {
	f := c.Identity.Front
	for _, s := range screens() {
		c.mux.Handle(Root+s.path, f.Pages(c.showScreen(s), nil))
		for _, a := range s.acts {
			c.mux.Handle(Root+s.path+"/"+a.name, f.Pages(c.showAct(s, a), c.handleAct(s, a)))
		}
	}
	c.mux.Handle(Root+"/", f.Pages(c.showNothing, nil))
}

// showNothing answers a path that no screen has, as to everybody: who may not see the console learns nothing of it.
func (c *Console) showNothing(*front.Request) error { return front.NotFound() }
