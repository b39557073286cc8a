package stack

import (
	"path/filepath"
	"strings"

	"github.com/liquida/liquida/platform/keys"
)

// The control room is a page that shows the stack and acts on it. The stack does not need it: nobody
// waits for it, and that it ends is no failure.

func (s *Stack) roomTokenFile() string { return filepath.Join(s.config.Dir, "room-token") }

// openRoom starts the room, unless it runs, and does not wait for it.
func (s *Stack) openRoom() error {
	if !s.has(Room) {
		if err := keys.MakePassword(s.roomTokenFile()); err != nil {
			return err
		}
		if err := s.add(Room); err != nil {
			return err
		}
	}
	p, err := s.process(Room)
	if err != nil || p.running() {
		return err
	}
	return s.StartProcess(Room)
}

func (s *Stack) specifyRoom(p *spec) {
	p.path, p.arguments = filepath.Join(s.config.BinDir, "loadtest"), []string{"room", "--dir", s.config.Dir}
	p.address = s.addresses.of(Room)
	p.optional = true
	p.env = append(p.env, "ROOM_ADDRESS="+p.address, "ROOM_TOKEN_FILE="+s.roomTokenFile(),
		"PRODUCER_URL="+s.ProducerURL(), "SIMULATOR_URL="+s.SimulatorURL(),
		"ANSWER_KEYS_FILE="+s.AnswerKeysFile(), "CLIENT_KEYS_DIR="+s.keysDir())
	if s.config.KafkaSecured { // the room itself may not write; this is for the load that it sends on request
		p.env = append(p.env, "LOAD_KAFKA_SASL_USER=loadtest", "LOAD_KAFKA_SASL_PASSWORD_FILE="+s.passwordFile("loadtest"))
	}
	p.env = append(p.env, s.deadline()...)
	p.ready = httpReady("http://" + p.address + "/")
}

// deadline returns the engines' own deadline as a setting, for those who judge by it.
func (s *Stack) deadline() (env []string) {
	for _, variable := range s.config.Env[Engine] {
		if strings.HasPrefix(variable, "ENGINE_DEADLINE=") {
			env = append(env, variable)
		}
	}
	return env
}

// RoomURL returns the URL of the control room, with the token of those who may look and act.
func (s *Stack) RoomURL() (string, error) {
	token, err := keys.ReadPassword(s.roomTokenFile())
	if err != nil {
		return "", err
	}
	return "http://" + s.addresses.of(Room) + "/#token=" + token, nil
}

// RoomURL returns the URL of the control room of the running stack in dir, or nothing if it has none.
func RoomURL(dir string) (string, error) {
	s, err := reopen(dir)
	if err != nil {
		return "", err
	}
	defer s.launcher.close()
	if !s.has(Room) {
		return "", nil
	}
	return s.RoomURL()
}
