package lifecycle

import "github.com/musterhq/muster/domain/machine"

// Instance1 is online or offline, as one source says.
func Instance1() machine.Definition {
	const (
		unknown = "UNKNOWN"
		online  = "ONLINE"
		offline = "OFFLINE"
	)
	return machine.Definition{
		Name:    "instance@1",
		About:   "An instance that is online or offline, as the one source says that is believed.",
		Initial: unknown,
		States: []machine.State{
			{Name: unknown, Class: machine.ClassIdle, Stable: true},
			{Name: online, Class: machine.ClassReady, Stable: true, Can: []string{machine.CanRead, machine.CanSend, machine.CanBulk}},
			{Name: offline, Class: machine.ClassDown, Stable: true},
		},
		Triggers: []string{"online", "offline"},
		Edges: []edge{
			{On: names{"online"}, From: names{unknown, offline}, To: online, Main: true},
			{On: names{"online"}, From: names{online}},
			{On: names{"offline"}, From: names{unknown, online}, To: offline},
			{On: names{"offline"}, From: names{offline}},
		},
		Authority: true,
	}
}
