package console

import (
	"net/url"

	"github.com/gatehouse-id/gatehouse/internal/page"
)

// screens is every screen, in the order of the navigation. Each stands in a file of its own.
func screens() []*screen {
	return []*screen{
		overviewScreen(),
		personsScreen(),
		personScreen(),
		groupsScreen(),
		groupScreen(),
		sessionsScreen(),
		applicationsScreen(),
		applicationScreen(),
		eventsScreen(),
	}
}

// screen is a page of the console with what is done on it.
type screen struct {
	// name is what messages and tests call it: console.<name>.title.
	name string
	// path is below the console. {id} names what the screen is about.
	path string
	icon string // in the navigation. Empty: it is not there
	role Role   // that sees it
	// find reads what the screen is about, and says so in the visit. nil: it is about nothing of its own.
	find func(c *Console, v *visit) error
	// show returns the page.
	show func(c *Console, v *visit) (*page.Console, error)
	acts []*act
}

// act is something that is done on a screen: GET of the screen's path and the name asks, POST does it.
type act struct {
	// name is the last part of the path: console.act.<name>, its button, and with .title and .text its page.
	name string
	role Role
	// peers says that it is not done to somebody who has the highest role, not even by somebody who has it too.
	spares bool
	// own says that people can do it to themselves.
	own    bool
	danger bool
	// hidden says that the page of the screen has no button for it, but links where it belongs.
	hidden bool
	// when tells whether there is anything to do. nil: there always is.
	when func(c *Console, v *visit) bool
	// may is what the act needs beyond the role, for this request. nil: nothing.
	may func(c *Console, v *visit) error
	// ask says what would happen. nil: the message alone.
	ask func(c *Console, v *visit) (question, error)
	// do does it, with the fields of the form. It returns where the browser goes, or what it is shown once.
	do func(c *Console, v *visit, in url.Values) (result, error)
}

// question is what the page of an act shows.
type question struct {
	fill   []any // of its text
	facts  []page.ConsoleFact
	fields []page.Field
	hidden []page.Hidden
}

// result is what an act leads to.
type result struct {
	to   string        // path. Empty: that of the screen
	page *page.Console // shown in place of a redirect
}

func (s *screen) act(name string) *act {
	for _, a := range s.acts {
		if a.name == name {
			return a
		}
	}
	return nil
}
