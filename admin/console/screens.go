package console

import (
	"slices"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/admin/console/maintenance"
	"github.com/gatehouse-id/gatehouse/admin/console/messages"
	"github.com/gatehouse-id/gatehouse/admin/console/providers"
	"github.com/gatehouse-id/gatehouse/admin/console/settingspages"
	"github.com/gatehouse-id/gatehouse/admin/console/sites"
	"github.com/gatehouse-id/gatehouse/admin/console/traffic"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/identity/person"
)

// all is every screen. Each stands in a file of its own.
func (c *Console) all() []*layout.Screen {
	return slices.Concat([]*layout.Screen{
		c.overviewScreen(),
		c.searchScreen(),
		c.personsScreen(),
		c.personScreen(),
		c.jobScreen(),
		c.groupsScreen(),
		c.groupScreen(),
		c.sessionsScreen(),
		c.applicationsScreen(),
		c.applicationScreen(),
		c.connectionScreen(),
		c.previewScreen(),
	}, sites.Screens(c.frame, c.Gateway), traffic.Screens(c.frame, c.Manage), providers.Screens(c.Setup), []*layout.Screen{
		c.eventsScreen(),
		c.eventsFileScreen(),
		c.liveScreen(),
		c.chainScreen(),
		c.alertsScreen(),
		c.alertScreen(),
		c.eventScreen(),
	}, providers.LastScreens(c.Setup), settingspages.Screens(c.Settings), messages.Screens(c.frame, c.Messages),
		maintenance.Screens(c.frame, c.Upkeep))
}

// shownPerson is the subject of the screen.
func shownPerson(v *layout.Visit) *admin.PersonDetails { return v.About.(*admin.PersonDetails) }

// shownGroup is the group that the screen is about, or nil.
func shownGroup(v *layout.Visit) *person.Group {
	g, _ := v.About.(*person.Group)
	return g
}

// shownClient is the client that the screen is about.
func shownClient(v *layout.Visit) *clientstore.Info { return v.About.(*clientstore.Info) }
