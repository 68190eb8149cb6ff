package console

import (
	"slices"

	"github.com/gatehouse-id/gatehouse/authz/registry"
	"github.com/gatehouse-id/gatehouse/caddymodule/console/frame"
	"github.com/gatehouse-id/gatehouse/caddymodule/console/gateway"
	"github.com/gatehouse-id/gatehouse/caddymodule/console/messages"
	"github.com/gatehouse-id/gatehouse/caddymodule/console/settings"
	"github.com/gatehouse-id/gatehouse/caddymodule/console/setup"
	"github.com/gatehouse-id/gatehouse/caddymodule/console/upkeep"
	"github.com/gatehouse-id/gatehouse/caddymodule/manage"
	"github.com/gatehouse-id/gatehouse/identity/person"
)

// all is every screen, in the order of the navigation. Each stands in a file of its own.
func (c *Console) all() []*frame.Screen {
	return slices.Concat([]*frame.Screen{
		c.overviewScreen(),
		c.personsScreen(),
		c.personScreen(),
		c.jobScreen(),
		c.groupsScreen(),
		c.groupScreen(),
		c.sessionsScreen(),
		c.applicationsScreen(),
		c.applicationScreen(),
		c.previewScreen(),
	}, gateway.Screens(c.frame, c.Gateway), setup.Screens(c.Setup), []*frame.Screen{
		c.eventsScreen(),
		c.eventsFileScreen(),
		c.liveScreen(),
		c.chainScreen(),
		c.alertsScreen(),
		c.alertScreen(),
		c.eventScreen(),
	}, setup.LastScreens(c.Setup), settings.Screens(c.Settings), messages.Screens(c.frame, c.Messages), upkeep.Screens(c.frame, c.Upkeep))
}

// shownPerson is the person whom the screen is about.
func shownPerson(v *frame.Visit) *manage.PersonDetails { return v.About.(*manage.PersonDetails) }

// shownGroup is the group that the screen is about, or nil.
func shownGroup(v *frame.Visit) *person.Group {
	g, _ := v.About.(*person.Group)
	return g
}

// shownClient is the client that the screen is about.
func shownClient(v *frame.Visit) *registry.Info { return v.About.(*registry.Info) }
