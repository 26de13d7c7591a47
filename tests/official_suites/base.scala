// What the official suites extend, in terms of a session that the runner has made: only names are theirs.

package org.apache.spark {
  import org.scalatest.{BeforeAndAfterAll, BeforeAndAfterEach}
  import org.scalatest.funsuite.AnyFunSuite

  abstract class SparkFunSuite extends AnyFunSuite with BeforeAndAfterAll with BeforeAndAfterEach {
    protected def gridTest[A](prefix: String)(params: Seq[A])(body: A => Unit): Unit =
      params.foreach(p => test(s"$prefix ($p)")(body(p)))

    protected def withTempDir(f: java.io.File => Unit): Unit =
      f(java.nio.file.Files.createTempDirectory("official").toFile.getCanonicalFile)
  }
}

package org.apache.spark.sql.paimon {
  object Utils {
    def createTempDir: java.io.File = java.nio.file.Files.createTempDirectory("official").toFile.getCanonicalFile
    def waitUntilEventEmpty(session: org.apache.spark.sql.SparkSession): Unit =
      session.asInstanceOf[org.apache.spark.sql.classic.SparkSession].sparkContext.listenerBus.waitUntilEmpty()
  }
}

package org.apache.spark.sql.paimon.shims {
  object memstream {
    type MemoryStream[A] = org.apache.spark.sql.execution.streaming.runtime.MemoryStream[A]
    val MemoryStream = org.apache.spark.sql.execution.streaming.runtime.MemoryStream
  }
}

package org.apache.spark.sql {
  import org.apache.spark.SparkFunSuite
  import org.apache.spark.sql.catalyst.plans.logical.Sort

  abstract class QueryTest extends SparkFunSuite { self =>
    protected implicit def spark: classic.SparkSession =
      SparkSession.getDefaultSession.get.asInstanceOf[classic.SparkSession]
    protected def sql(text: String): classic.DataFrame = spark.sql(text)
    protected def sparkContext = spark.sparkContext
    protected implicit def sqlContext: SQLContext = spark.sqlContext
    protected object testImplicits extends classic.SQLImplicits {
      override def session: classic.SparkSession = self.spark
    }

    private def plain(value: Any): Any = value match {
      case bytes: Array[Byte] => bytes.toSeq
      case items: Array[_] => items.toSeq.map(plain)
      case number: java.math.BigDecimal => BigDecimal(number) // which equals the same Double and other scales
      case row: Row => row.toSeq.map(plain)
      case map: scala.collection.Map[_, _] => map.map { case (k, v) => (plain(k), plain(v)) }.toMap
      case items: scala.collection.Iterable[_] => items.toSeq.map(plain)
      case number: Double if number.isNaN => "NaN"
      case other => other
    }

    protected def checkAnswer(frame: => DataFrame, expected: Seq[Row]): Unit = {
      val found = frame.asInstanceOf[classic.DataFrame]
      val ordered = found.logicalPlan.exists(_.isInstanceOf[Sort])
      val toldMore = found.columns.startsWith(Seq("result", "snapshot_id")) // CALL sys.compact: theirs has `result` only
      def shown(rows: Seq[Row]): Seq[Any] = {
        val values = rows.map(row => plain(if (toldMore) Row(row.get(0)) else row))
        if (ordered) values else values.sortBy(String.valueOf(_))
      }
      val (left, right) = (shown(found.collect().toSeq), shown(expected))
      if (left != right) fail(s"rows differ: found ${left.take(20)}, expected ${right.take(20)}")
    }
    protected def checkAnswer(frame: => DataFrame, expected: Row): Unit = checkAnswer(frame, Seq(expected))
    protected def checkAnswer(frame: => DataFrame, expected: DataFrame): Unit =
      checkAnswer(frame, expected.collect().toSeq)

    private def thenDrop(kind: String, names: Seq[String])(f: => Unit): Unit =
      try f finally names.foreach(name => scala.util.Try(spark.sql(s"DROP $kind IF EXISTS $name")))
    protected def withTable(names: String*)(f: => Unit): Unit = thenDrop("TABLE", names)(f)
    protected def withView(names: String*)(f: => Unit): Unit = thenDrop("VIEW", names)(f)
    protected def withTempView(names: String*)(f: => Unit): Unit =
      try f finally names.foreach(name => spark.catalog.dropTempView(name))
    protected def withDatabase(names: String*)(f: => Unit): Unit =
      try f finally names.foreach(name => scala.util.Try(spark.sql(s"DROP DATABASE IF EXISTS $name CASCADE")))
    protected def withUserDefinedFunction(functions: (String, Boolean)*)(f: => Unit): Unit =
      try f finally functions.foreach { case (name, temporary) =>
        scala.util.Try(spark.sql(s"DROP ${if (temporary) "TEMPORARY " else ""}FUNCTION IF EXISTS $name"))
      }
    protected def withSQLConf[T](pairs: (String, String)*)(f: => T): T = {
      val before = pairs.map { case (key, _) => key -> spark.conf.getOption(key) }
      pairs.foreach { case (key, value) => spark.conf.set(key, value) }
      try f finally before.foreach {
        case (key, Some(value)) => spark.conf.set(key, value)
        case (key, None) => spark.conf.unset(key)
      }
    }
  }
}

package org.apache.spark.sql.test {
  trait SharedSparkSession extends org.apache.spark.sql.QueryTest
}

package org.apache.spark.sql.streaming {
  import org.scalatest.concurrent.{Signaler, ThreadSignaler, TimeLimits}
  import org.scalatest.time.{Seconds, Span}

  trait StreamTest extends org.apache.spark.sql.QueryTest with TimeLimits {
    protected implicit val signaler: Signaler = ThreadSignaler
    protected val streamingTimeout: Span = Span(600, Seconds) // the runner has a limit of its own
  }
}

package org.apache.paimon.spark {
  import java.io.File
  import java.util.TimeZone
  import org.apache.paimon.catalog.{Catalog, CatalogContext, CatalogFactory, Identifier}
  import org.apache.paimon.fs.{FileIO, Path}
  import org.apache.paimon.fs.local.LocalFileIO
  import org.apache.paimon.spark.sql.{SparkVersionSupport, WithTableOptions}
  import org.apache.paimon.table.{FileStoreTable, FileStoreTableFactory}
  import org.apache.spark.SparkConf
  import org.apache.spark.sql.QueryTest
  import org.apache.spark.sql.test.SharedSparkSession

  class PaimonSparkTestBase extends QueryTest with SharedSparkSession with WithTableOptions with SparkVersionSupport {
    protected lazy val commitUser: String = java.util.UUID.randomUUID.toString
    protected lazy val fileIO: FileIO = LocalFileIO.create
    protected lazy val tempDBDir: File = new File(System.getProperty("official.warehouse"))
    protected def paimonCatalog: Catalog =
      CatalogFactory.createCatalog(CatalogContext.create(new Path(tempDBDir.toString)))
    protected val dbName0: String = "test"
    protected val tableName0: String = "T"

    /** What a suite sets beside the catalog. */
    protected def sparkConf: SparkConf = new SparkConf(false)
    private def settings = sparkConf.getAll.filter { case (key, _) => spark.conf.isModifiable(key) || !key.startsWith("spark.sql.catalog") }

    override protected def beforeAll(): Unit = {
      super.beforeAll()
      settings.foreach { case (key, value) => scala.util.Try(spark.conf.set(key, value)) }
      spark.sql(s"CREATE DATABASE IF NOT EXISTS paimon.$dbName0")
      spark.sql(s"USE paimon.$dbName0")
    }
    override protected def afterAll(): Unit =
      try {
        spark.sql(s"USE paimon.default")
        spark.sql(s"DROP DATABASE IF EXISTS paimon.$dbName0 CASCADE")
      } finally {
        settings.foreach { case (key, _) => scala.util.Try(spark.conf.unset(key)) }
        val views = spark.sessionState.catalog // which would hide tables of later suites
        views.listLocalTempViews("*").foreach(view => views.dropTempView(view.table))
        super.afterAll()
      }
    override protected def beforeEach(): Unit = {
      super.beforeEach()
      spark.sql(s"USE paimon.$dbName0")
      spark.sql(s"DROP TABLE IF EXISTS $tableName0")
    }
    protected def withTempDirs(f: (File, File) => Unit): Unit = withTempDir(one => withTempDir(two => f(one, two)))
    protected def withTimeZone(zone: String)(f: => Unit): Unit = withSQLConf("spark.sql.session.timeZone" -> zone) {
      val before = TimeZone.getDefault
      TimeZone.setDefault(TimeZone.getTimeZone(zone))
      try f finally TimeZone.setDefault(before)
    }
    protected def withSparkSQLConf(pairs: (String, String)*)(f: => Unit): Unit = withSQLConf(pairs: _*)(f)
    def loadTable(table: String): FileStoreTable = loadTable(dbName0, table)
    def loadTable(database: String, table: String): FileStoreTable =
      paimonCatalog.getTable(Identifier.create(database, table)).asInstanceOf[FileStoreTable]
  }

  /** The catalog `paimon_hive` of a Hive metastore. There is no SparkGenericCatalog: what is asked of it is asked there too. */
  class PaimonHiveTestBase extends PaimonSparkTestBase {
    protected lazy val tempHiveDBDir: File = new File(System.getProperty("official.hive"))
    protected val sparkCatalogName: String = "paimon_hive"
    protected val paimonHiveCatalogName: String = "paimon_hive"
    protected val hiveDbName: String = "test_hive"

    override protected def beforeAll(): Unit = {
      super.beforeAll()
      spark.sql(s"CREATE DATABASE IF NOT EXISTS paimon_hive.$hiveDbName")
    }
    override protected def afterAll(): Unit =
      try {
        spark.sql(s"USE paimon.default")
        spark.sql(s"DROP DATABASE IF EXISTS paimon_hive.$hiveDbName CASCADE")
      } finally super.afterAll()
    override protected def beforeEach(): Unit = {
      super.beforeEach()
      spark.sql(s"USE paimon_hive.$hiveDbName")
    }
    override def loadTable(table: String): FileStoreTable = loadTable(hiveDbName, table)
    override def loadTable(database: String, table: String): FileStoreTable = {
      val details = spark.sql(s"DESCRIBE TABLE EXTENDED $paimonHiveCatalogName.$database.$table").collect()
      val path = details.find(_.getString(0) == "Location").get.getString(1)
      FileStoreTableFactory.create(fileIO, new Path(if (path.contains(":")) path else s"file:$path"))
    }
  }
  object PaimonHiveTestBase {
    val hiveUri: String = System.getProperty("official.hive.uri")
  }

  /** There is no REST catalog: what these suites ask of SQL is asked of a directory. */
  class PaimonSparkTestWithRestCatalogBase extends PaimonSparkTestBase {
    protected val warehouse: String = "official"
  }
}

package official {
  import org.scalatest.{Args, Reporter, Suite}
  import org.scalatest.events.{Event, TestFailed, TestSucceeded}
  import scala.jdk.CollectionConverters._

  object Runner {
    private def made(name: String): Suite = Class.forName(name).getDeclaredConstructor().newInstance().asInstanceOf[Suite]

    def cases(name: String): java.util.List[String] = made(name).testNames.toList.asJava

    /** "passed", "ignored", or what failed. */
    def run(name: String, test: String, seconds: Int): String = {
      var said = "ignored"
      def reason(error: Throwable): String = {
        val own = error.getStackTrace.find(_.getClassName.startsWith("org.apache.paimon.spark"))
        val line = own.map(at => s" at ${at.getFileName}:${at.getLineNumber}").getOrElse("")
        s"${error.getClass.getSimpleName}: ${error.getMessage}$line"
      }
      val reporter = new Reporter {
        override def apply(event: Event): Unit = event match {
          case failed: TestFailed => said = failed.throwable.map(reason).getOrElse(failed.message)
          case _: TestSucceeded => said = "passed"
          case _ =>
        }
      }
      val body = new Thread(() =>
        try made(name).run(Some(test), Args(reporter)) catch { case error: Throwable => said = "suite: " + reason(error) })
      body.setDaemon(true)
      body.start()
      body.join(seconds * 1000L)
      if (body.isAlive) {
        said = s"no end after $seconds s"
        org.apache.spark.sql.SparkSession.getDefaultSession.foreach(_.sparkContext.cancelAllJobs())
        body.interrupt()
        body.join(10000L)
      }
      said
    }
  }
}
