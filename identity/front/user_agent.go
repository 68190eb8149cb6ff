package front

import (
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/places"
)

// AgentText names the browser of a User-Agent header for people.
func AgentText(header string) page.Text {
	switch browser, system := places.ReadDevice(header); {
	case browser != "" && system != "":
		return page.Say("device.browser", "browser", browser, "system", system)
	case browser != "" || system != "":
		return page.Say(browser + system)
	}
	return page.Say("device.unknown")
}
