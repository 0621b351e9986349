//! The size of the table of items and its indexes, and its dead rows.

use indicatif::{DecimalBytes, HumanCount};

use crate::database::connect;
use crate::failure::Failure;
use crate::fixture::{Below, Fixture};

/// The table comes first, and then its indexes.
const SIZES: &str = "SELECT relname::text, pg_relation_size(oid) FROM pg_class
    WHERE oid = 'items'::regclass OR oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = 'items'::regclass)
    ORDER BY relkind DESC, relname";

const DEAD: &str = "SELECT pg_stat_get_dead_tuples('items'::regclass)";

/// The sizes at a moment; empty for a store that does not report them.
#[derive(Debug, Default)]
pub(super) struct Size {
    /// Names and bytes.
    relations: Vec<(String, u64)>,
    dead_rows: u64,
}

impl Size {
    pub(super) async fn of(fixture: &Fixture) -> Result<Self, Failure> {
        let Below::Schema(schemas) = &fixture.below else { return Ok(Self::default()) };
        let client = connect(&schemas.database.config(&[&schemas.store])).await?;
        let rows = client.query(SIZES, &[]).await?;
        let relations =
            rows.iter().map(|row| (row.get(0), row.get::<_, i64>(1).unsigned_abs())).collect();
        let dead_rows = client.query_one(DEAD, &[]).await?.get::<_, i64>(0).unsigned_abs();
        Ok(Self { relations, dead_rows })
    }

    /// Describes the growth from this moment to a later one.
    pub(super) fn to(&self, later: &Self) -> String {
        let (dead, later_dead) = (HumanCount(self.dead_rows), HumanCount(later.dead_rows));
        let sizes =
            self.relations.iter().zip(&later.relations).map(|((name, bytes), (_, later))| {
                format!("{name} from {} to {}", DecimalBytes(*bytes), DecimalBytes(*later))
            });
        let all: Vec<_> = sizes.chain([format!("dead rows from {dead} to {later_dead}")]).collect();
        all.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use tidelock_test_postgres::shared_url;

    use super::*;
    use crate::target::Target;

    #[tokio::test(flavor = "multi_thread")]
    async fn the_table_and_all_of_its_indexes_are_looked_at() {
        let target = Target::parse(&shared_url().unwrap()).unwrap().another("growth");
        let fixture = Fixture::filled(&target, async |_| Ok(())).await.unwrap();
        let size = Size::of(&fixture).await.unwrap();
        fixture.clear().await.unwrap();
        let names: Vec<_> = size.relations.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            ["items", "items_blocked", "items_held", "items_leaving", "items_pkey", "items_ready"]
        );
    }

    #[test]
    fn growth_is_told_for_each_relation() {
        let size =
            |bytes, dead_rows| Size { relations: vec![("items".to_owned(), bytes)], dead_rows };
        let told = size(1_000_000, 0).to(&size(2_500_000, 1_234));
        assert_eq!(told, "items from 1.00 MB to 2.50 MB, dead rows from 0 to 1,234");
    }
}
