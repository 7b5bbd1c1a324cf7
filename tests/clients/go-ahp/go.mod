module lodge/tests/clients/go-ahp

go 1.24

require github.com/microsoft/agent-host-protocol/clients/go v1.0.0
