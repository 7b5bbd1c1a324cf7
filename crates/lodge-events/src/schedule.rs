//! Scheduled prompts.

use crate::ScheduleOrigin;
use crate::macros::events;

events! {
    "Schedules";

    "session.schedule_created" SessionScheduleCreated persisted newer
        "A prompt was scheduled." {
        id: u64 = "Number of the schedule within the session, from 1.",
        interval_ms? u64 = "Milliseconds between runs.",
        cron? String = "Calendar rule with five fields.",
        tz? String = "Time zone of that rule.",
        at? u64 = "Time of a single run, in Unix milliseconds.",
        prompt: String = "The prompt.",
        recurring? bool = "Whether it runs again and again.",
        self_paced? bool = "Whether the model sets each next run.",
        display_prompt? String = "What is shown in place of the prompt.",
        origin? ScheduleOrigin = "Who made it.",
    }

    "session.schedule_cancelled" SessionScheduleCancelled persisted newer
        "A scheduled prompt was cancelled." {
        id: u64 = "The schedule.",
    }

    "session.schedule_rearmed" SessionScheduleRearmed persisted newer
        "A self-paced schedule has its next run." {
        id: u64 = "The schedule.",
        next_run_at: u64 = "Time of the run, in Unix milliseconds.",
    }
}
