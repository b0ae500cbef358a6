//! The calls to the server, one method each.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use temporalio_client::Connection;
use temporalio_client::grpc::WorkflowService as _;
use temporalio_client::tonic::{Code, Status};
use temporalio_protos::temporal::api::activity::v1::activity_execution_outcome::Value as Outcome;
use temporalio_protos::temporal::api::common::v1::{ActivityType, Payloads, RetryPolicy};
use temporalio_protos::temporal::api::enums::v1::{
    ActivityExecutionStatus, ActivityIdConflictPolicy, ActivityIdReusePolicy, TaskQueueType,
    TimeoutType,
};
use temporalio_protos::temporal::api::failure::v1::failure::FailureInfo;
use temporalio_protos::temporal::api::failure::v1::{ApplicationFailureInfo, Failure};
use temporalio_protos::temporal::api::taskqueue::v1::{PollerInfo, TaskQueue};
use temporalio_protos::temporal::api::workflowservice::v1 as calls;

use super::{
    CALL, Cover, Described, Ended, Engine, EngineError, HOST_LOST, HeldActivity, Poller, Sealed,
    Start, Started, Taken, What,
};
use crate::fleet::seal::Seal;

/// The server answers a long poll within a minute.
const LONG_CALL: Duration = Duration::from_secs(70);
/// Failure type: nothing was started, whatever was reported before.
const NOT_STARTED: &str = "heartbeat.not_started";
/// Name of the activity type; its subject is in its input.
const KIND: &str = "heartbeat";

impl Engine {
    /// Checks that a value is small enough for the server.
    pub fn ensure_fits(&self, value: &impl Serialize) -> Result<(), EngineError> {
        self.covered(&Cover::Key(self.keys().own()), "size", value).map(drop)
    }

    pub async fn start(&self, start: Start<'_>) -> Result<Started, EngineError> {
        let reuse = match start.again {
            true => ActivityIdReusePolicy::AllowDuplicate,
            false => ActivityIdReusePolicy::RejectDuplicate,
        };
        let request = calls::StartActivityExecutionRequest {
            namespace: self.0.namespace.clone(),
            identity: self.0.identity.clone(),
            request_id: uuid::Uuid::now_v7().to_string(),
            activity_id: start.id.to_owned(),
            activity_type: Some(ActivityType { name: KIND.to_owned() }),
            task_queue: Some(queue(start.queue)),
            schedule_to_start_timeout: start.wait.try_into().ok(),
            start_to_close_timeout: start.limit.try_into().ok(),
            heartbeat_timeout: start.heartbeat_timeout.and_then(|timeout| timeout.try_into().ok()),
            retry_policy: Some(RetryPolicy { maximum_attempts: 1, ..RetryPolicy::default() }),
            input: Some(self.covered(&Cover::Signed, &What::Task.purpose(start.id), start.task)?),
            id_reuse_policy: reuse.into(),
            id_conflict_policy: ActivityIdConflictPolicy::Fail.into(),
            ..Default::default()
        };
        let mut connection = self.connection().await?;
        match connection.start_activity_execution(Self::request(request, CALL)).await {
            Ok(_) => Ok(Started::New),
            Err(status) if status.code() == Code::AlreadyExists => Ok(Started::Known),
            Err(status) => Err(self.failed(&status)),
        }
    }

    /// Waits for the end of an execution; `None` if it has not ended within a minute. An unknown id
    /// is refused.
    pub async fn wait_for(&self, id: &str) -> Result<Option<Ended>, EngineError> {
        let request = calls::PollActivityExecutionRequest {
            namespace: self.0.namespace.clone(),
            activity_id: id.to_owned(),
            run_id: String::new(),
        };
        let mut connection = self.connection().await?;
        match connection.poll_activity_execution(Self::request(request, LONG_CALL)).await {
            Ok(answer) => Ok(answer.into_inner().outcome.and_then(|it| it.value).map(ended)),
            Err(status) if status.code() == Code::DeadlineExceeded => Ok(None),
            Err(status) => Err(self.failed(&status)),
        }
    }

    /// The server's state of an execution; `None` if the id is unknown.
    pub async fn describe(&self, id: &str) -> Result<Option<Described>, EngineError> {
        let request = calls::DescribeActivityExecutionRequest {
            namespace: self.0.namespace.clone(),
            activity_id: id.to_owned(),
            include_heartbeat_details: true,
            ..Default::default()
        };
        let mut connection = self.connection().await?;
        let answer = connection.describe_activity_execution(Self::request(request, CALL)).await;
        let info = match answer {
            Ok(answer) => answer.into_inner().info.unwrap_or_default(),
            Err(status) => {
                return match self.failed(&status) {
                    EngineError::Unknown(..) => Ok(None),
                    error => Err(error),
                };
            }
        };
        let details = info.heartbeat_details.and_then(|it| it.payloads.into_iter().next());
        Ok(Some(Described {
            is_open: info.status == i32::from(ActivityExecutionStatus::Running),
            details: details.map(Sealed),
            reported_at: info
                .last_heartbeat_time
                .and_then(|at| Timestamp::new(at.seconds, at.nanos).ok()),
        }))
    }

    /// Asks the host of an execution to end it; the host learns it with its next heartbeat.
    pub async fn cancel(&self, id: &str, reason: &str) -> Result<(), EngineError> {
        let request = calls::RequestCancelActivityExecutionRequest {
            namespace: self.0.namespace.clone(),
            activity_id: id.to_owned(),
            identity: self.0.identity.clone(),
            request_id: uuid::Uuid::now_v7().to_string(),
            reason: reason.to_owned(),
            ..Default::default()
        };
        let mut connection = self.connection().await?;
        let answer = connection.request_cancel_activity_execution(Self::request(request, CALL));
        answer.await.map(drop).or_else(|status| self.unless_over(&status))
    }

    /// Takes an execution away from its host, which learns it with its next heartbeat.
    pub async fn terminate(&self, id: &str, reason: &str) -> Result<(), EngineError> {
        let request = calls::TerminateActivityExecutionRequest {
            namespace: self.0.namespace.clone(),
            activity_id: id.to_owned(),
            identity: self.0.identity.clone(),
            request_id: uuid::Uuid::now_v7().to_string(),
            reason: reason.to_owned(),
            ..Default::default()
        };
        let mut connection = self.connection().await?;
        let answer = connection.terminate_activity_execution(Self::request(request, CALL));
        answer.await.map(drop).or_else(|status| self.unless_over(&status))
    }

    /// An execution that has ended is not an error.
    fn unless_over(&self, status: &Status) -> Result<(), EngineError> {
        match (status.code(), self.failed(status)) {
            (Code::FailedPrecondition, _) | (_, EngineError::Unknown(..)) => Ok(()),
            (_, error) => Err(error),
        }
    }

    /// Waits for work on a queue; `None` if there was none within a minute.
    pub async fn poll(&self, name: &str) -> Result<Option<Taken>, EngineError> {
        let request = calls::PollActivityTaskQueueRequest {
            namespace: self.0.namespace.clone(),
            task_queue: Some(queue(name)),
            identity: self.0.identity.clone(),
            ..Default::default()
        };
        let mut connection = self.connection().await?;
        let answer = connection.poll_activity_task_queue(Self::request(request, LONG_CALL)).await;
        let task = match answer {
            Ok(answer) => answer.into_inner(),
            Err(status) if status.code() == Code::DeadlineExceeded => return Ok(None),
            Err(status) => return Err(self.failed(&status)),
        };
        if task.task_token.is_empty() {
            return Ok(None);
        }
        let input = task.input.and_then(|it| it.payloads.into_iter().next()).unwrap_or_default();
        let at = task.started_time.and_then(|at| Timestamp::new(at.seconds, at.nanos).ok());
        Ok(Some(Taken { id: task.activity_id, token: task.task_token, input: Sealed(input), at }))
    }

    /// Sends a heartbeat for a task.
    pub async fn beat(
        &self,
        id: &str,
        token: &[u8],
        (seal, details): (&Seal, &impl Serialize),
        limit: Duration,
    ) -> Result<HeldActivity, EngineError> {
        let request = calls::RecordActivityTaskHeartbeatRequest {
            task_token: token.to_vec(),
            details: Some(self.covered(&Cover::Key(seal), &What::Beat.purpose(id), details)?),
            identity: self.0.identity.clone(),
            namespace: self.0.namespace.clone(),
            ..Default::default()
        };
        let mut connection = self.connection().await?;
        match connection.record_activity_task_heartbeat(Self::request(request, limit)).await {
            Ok(answer) if answer.get_ref().cancel_requested => Ok(HeldActivity::CancelRequested),
            Ok(_) => Ok(HeldActivity::Yes),
            Err(status) => match self.failed(&status) {
                EngineError::Unknown(..) => Ok(HeldActivity::No),
                error => Err(error),
            },
        }
    }

    /// Completes a task with its result. False if the server no longer wants it.
    pub async fn complete(
        &self,
        id: &str,
        token: &[u8],
        cover: &Cover<'_>,
        result: &impl Serialize,
    ) -> Result<bool, EngineError> {
        let request = calls::RespondActivityTaskCompletedRequest {
            task_token: token.to_vec(),
            result: Some(self.covered(cover, &What::Result.purpose(id), result)?),
            identity: self.0.identity.clone(),
            namespace: self.0.namespace.clone(),
            ..Default::default()
        };
        let mut connection = self.connection().await?;
        let answer = connection.respond_activity_task_completed(Self::request(request, CALL)).await;
        self.taken(answer.map(drop))
    }

    /// Fails a task for which nothing was started. False if the server no longer wants it.
    pub async fn return_task(
        &self,
        id: &str,
        token: &[u8],
        cover: &Cover<'_>,
        why: &str,
    ) -> Result<bool, EngineError> {
        let details = self.covered(cover, &What::Result.purpose(id), &why)?;
        let info = ApplicationFailureInfo {
            r#type: NOT_STARTED.to_owned(),
            non_retryable: true,
            details: Some(details),
            ..Default::default()
        };
        let failure = Failure {
            message: "not started".to_owned(),
            source: KIND.to_owned(),
            failure_info: Some(FailureInfo::ApplicationFailureInfo(info)),
            ..Default::default()
        };
        let request = calls::RespondActivityTaskFailedRequest {
            task_token: token.to_vec(),
            failure: Some(failure),
            identity: self.0.identity.clone(),
            namespace: self.0.namespace.clone(),
            ..Default::default()
        };
        let mut connection = self.connection().await?;
        let answer = connection.respond_activity_task_failed(Self::request(request, CALL)).await;
        self.taken(answer.map(drop))
    }

    fn taken(&self, answer: Result<(), Status>) -> Result<bool, EngineError> {
        match answer {
            Ok(()) => Ok(true),
            Err(status) => match self.failed(&status) {
                EngineError::Unknown(..) => Ok(false),
                error => Err(error),
            },
        }
    }

    /// The workers that poll a queue.
    pub async fn pollers(&self, name: &str) -> Result<Vec<Poller>, EngineError> {
        let request = calls::DescribeTaskQueueRequest {
            namespace: self.0.namespace.clone(),
            task_queue: Some(queue(name)),
            task_queue_type: TaskQueueType::Activity.into(),
            ..Default::default()
        };
        let mut connection = self.connection().await?;
        let answer = connection.describe_task_queue(Self::request(request, CALL)).await;
        let pollers = answer.map_err(|status| self.failed(&status))?.into_inner().pollers;
        let poller = |one: PollerInfo| {
            let at = one.last_access_time?;
            let seen_at = Timestamp::new(at.seconds, at.nanos).ok()?;
            Some(Poller { host: one.identity, seen_at })
        };
        Ok(pollers.into_iter().filter_map(poller).collect())
    }

    /// The server's version.
    pub async fn version(&self) -> Result<String, EngineError> {
        let mut connection = self.connection().await?;
        self.version_of(&mut connection).await
    }

    pub(super) async fn version_of(
        &self,
        connection: &mut Connection,
    ) -> Result<String, EngineError> {
        let request = Self::request(calls::GetSystemInfoRequest::default(), CALL);
        let answer = connection.get_system_info(request).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner().server_version)
    }

    /// Fails if activities without a workflow are disabled, or the namespace does not exist.
    pub async fn ensure_usable(&self) -> Result<(), EngineError> {
        let request = calls::CountActivityExecutionsRequest {
            namespace: self.0.namespace.clone(),
            ..Default::default()
        };
        let mut connection = self.connection().await?;
        let answer = connection.count_activity_executions(Self::request(request, CALL)).await;
        answer.map(drop).map_err(|status| self.failed(&status))
    }
}

fn queue(name: &str) -> TaskQueue {
    TaskQueue { name: name.to_owned(), ..TaskQueue::default() }
}

fn ended(outcome: Outcome) -> Ended {
    let first = |payloads: Option<Payloads>| {
        Sealed(payloads.and_then(|it| it.payloads.into_iter().next()).unwrap_or_default())
    };
    match outcome {
        Outcome::Result(payloads) => Ended::Completed(first(Some(payloads))),
        Outcome::Failure(failure) => match failure.failure_info {
            Some(FailureInfo::ApplicationFailureInfo(info)) if info.r#type == NOT_STARTED => {
                Ended::Returned(first(info.details))
            }
            Some(FailureInfo::TimeoutFailureInfo(info)) => {
                match TimeoutType::try_from(info.timeout_type) {
                    Ok(TimeoutType::ScheduleToStart) => Ended::NotTaken,
                    Ok(TimeoutType::Heartbeat) => Ended::Lost(HOST_LOST),
                    _ => Ended::Lost("its host exceeded the time limit"),
                }
            }
            Some(FailureInfo::CanceledFailureInfo(_)) => Ended::Lost("it was cancelled"),
            Some(FailureInfo::TerminatedFailureInfo(_)) => Ended::Lost("the server terminated it"),
            _ => Ended::Lost("its host failed"),
        },
    }
}
