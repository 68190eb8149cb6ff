package webflow

import (
	"github.com/gatehouse-id/gatehouse/internal/sessionindex"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// AgentText names the browser of a User-Agent header for people.
func AgentText(header string) web.Text {
	switch browser, system := sessionindex.ReadDevice(header); {
	case browser != "" && system != "":
		return web.Say("device.browser", "browser", browser, "system", system)
	case browser != "" || system != "":
		return web.Say(browser + system)
	}
	return web.Say("device.unknown")
}
